"""Group ``l2``: second-level cache and reductions."""

from dataclasses import dataclass

from ..constants import LINE_BYTES
from .group import ConfigError, power_of_two
from .memory import MemoryGroup

__all__ = ["L2Group", "L2Parameters"]


@dataclass(frozen=True, kw_only=True)
class L2Group(MemoryGroup):
    """Table ``l2``: L2 cache of the device and reductions in it.

    Parameters
    ----------
    l2_kib : int
        L2 cache of the device in KiB, a power of two up to 4096 and up to half of global memory; 0: none. With L2 ``cores`` is a power
        of two. Each way of each core's bank has at least two lines of ``LINE_BYTES``.
    l2_ways : int
        Associativity of the L2 cache (1, 2, 4 or 8).
    reductions : bool
        Writes to global memory may be reductions, element by element; requires the L2 cache.
    reduction_floats : bool
        Reductions also of f16, bf16 and f32; requires ``reductions``.
    """

    l2_kib: int = 0
    l2_ways: int = 4
    reductions: bool = False
    reduction_floats: bool = False

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._one_of("l2_ways", (1, 2, 4, 8))
        for name, needed in (("reductions", "l2_kib"), ("reduction_floats", "reductions")):
            if getattr(self, name) and not getattr(self, needed):
                raise ConfigError(f"{name} must be false with {needed} = {getattr(self, needed)}, not True")
        if not self.l2_kib:
            return
        if not power_of_two(self.cores):
            raise ConfigError(f"l2_kib must be 0 with cores = {self.cores}, not {self.l2_kib}")
        least = 2 * LINE_BYTES * self.cores * self.l2_ways
        self._power("l2_kib", max(1, least // 1024), min(4096, 1 << (self.axi_address_bits - 11)))


@dataclass(frozen=True, kw_only=True)
class L2Parameters(L2Group):
    """What the L2 cache takes: core, memory and its group."""

    axi_id_bits: int
