"""Parameters of the control registers."""

from dataclasses import dataclass

from .front_end import FrontEndGroup

__all__ = ["ControlParameters"]


@dataclass(frozen=True, kw_only=True)
class ControlParameters(FrontEndGroup):
    """What the control registers take: core and front end, and what the host reads of the device."""

    shared_bytes: int
