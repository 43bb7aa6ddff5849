"""Which reductions the second level has: for copies of blocks and of tensors."""

from amaranth.hdl import Cat, Signal, Value

from ..isa.encoding import Reduction
from ..isa.tensor_descriptor import FLOAT_FORMATS, TensorFormat
from ..isa.tensor_rules import REDUCTION_FORMATS

__all__ = ["is_one_of", "lacks_reduction", "reducible_formats", "reduction_members", "undefined_reduction"]


def reduction_members(cfg):
    """Of a store: how its elements are combined with those of memory."""
    return {"reduction": Reduction, "format": TensorFormat} if cfg.reductions else {}


def reducible_formats(cfg):
    """Formats that the second level reduces."""
    return [format for format in TensorFormat if cfg.reductions and (cfg.reduction_floats or format not in FLOAT_FORMATS)]


def is_one_of(value, members):
    """``value`` is one of the members of an enumeration; a set of them gives the same hardware in every process."""
    return Cat(Value.cast(value) == number for number in sorted(member.value for member in members)).any()


def undefined_reduction(m, reduction, format):
    """A reduction that the format does not have, or that does not exist."""
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
    """A reduction of a format that the hardware behind does not reduce."""
    return (reduction != Reduction.NONE) & is_one_of(format, [kind for kind in TensorFormat if kind not in reducible])
