"""Group ``slices``: register slices between units and between pipeline stages."""

from dataclasses import dataclass

from .group import Parameters

__all__ = ["SlicesGroup"]


@dataclass(frozen=True, kw_only=True)
class SlicesGroup(Parameters):
    """Table ``slices``: register slices, which shorten combinational paths and add cycles. Only wiring modules read them.

    Parameters
    ----------
    front_end_slices : int
        0: none. 1: between the stages of the front end, as ``heddle.front_end.unit`` places them.
    """

    front_end_slices: int = 0

    def _check(self) -> None:
        """Raises ``ConfigError`` where a value violates a rule."""
        self._one_of("front_end_slices", (0, 1))
