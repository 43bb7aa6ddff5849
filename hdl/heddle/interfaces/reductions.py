"""Reductions and element formats that the L2 supports."""

from amaranth.hdl import Signal

from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import FLOAT_FORMATS, TensorFormat
from ..isa.tensor_rules import REDUCTION_FORMATS
from ..lib.onehot import is_one_of

__all__ = ["lacks_reduction", "reducible_formats", "reduction_members", "undefined_reduction"]


def reduction_members(cfg):
    """Layout members of a store that select its reduction: ``reduction`` and ``format``; none without ``cfg.reductions``."""
    return {"reduction": Reduction, "format": TensorFormat} if cfg.reductions else {}


def reducible_formats(cfg):
    """Element formats that the L2 reduces: none without ``cfg.reductions``, integers only without ``cfg.reduction_floats``."""
    return [format for format in TensorFormat if cfg.reductions and (cfg.reduction_floats or format not in FLOAT_FORMATS)]


def undefined_reduction(m, reduction, format):
    """Whether ``reduction`` does not exist or is not defined for ``format``; combinational, 1 bit."""
    undefined = Signal(name="undefined_reduction")
    with m.Switch(reduction):
        with m.Case(Reduction.NONE):
            pass
        for kind, formats in REDUCTION_FORMATS.items():
            with m.Case(kind):
                m.d.comb += undefined.eq(~is_one_of(format, formats))
        with m.Default():
            m.d.comb += undefined.eq(1)
    return undefined


def lacks_reduction(reduction, format, reducible):
    """Whether ``reduction`` is not NONE and ``format`` is not in ``reducible``, the formats that the L2 reduces; combinational, 1 bit."""
    return (reduction != Reduction.NONE) & is_one_of(format, [kind for kind in TensorFormat if kind not in reducible])
