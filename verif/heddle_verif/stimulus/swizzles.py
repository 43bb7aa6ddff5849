"""Swizzles of segments in programs and operations of benches."""

from heddle.interfaces.swizzle import swizzles
from heddle.isa.encoding import Swizzle

__all__ = ["modes_of", "number_of", "random_mode"]


def modes_of(cfg):
    """All modes of the configuration, none the first."""
    return Swizzle.NONE, *swizzles(cfg)


def number_of(cfg, mode):
    """Number that stands for a mode in a field ``swizzle`` of an operation."""
    return modes_of(cfg).index(mode)


def random_mode(source, cfg):
    """A mode of the configuration; none as often as all others together."""
    return source.choice((*modes_of(cfg)[1:], *[Swizzle.NONE] * (len(modes_of(cfg)) - 1 or 1)))
