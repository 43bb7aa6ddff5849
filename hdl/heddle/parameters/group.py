"""Base of all groups of parameters: the rules of values, and the narrowing to what a unit takes."""

import dataclasses
from typing import Any, Self, TypeVar

from ..errors import UsageError

__all__ = ["ConfigError", "Parameters", "power_of_two"]

Kind = TypeVar("Kind", bound="Parameters")


class ConfigError(UsageError):
    """A parameter, or a pair of parameters, violates a rule; the message names parameter, rule and value."""


def power_of_two(value: int) -> bool:
    """Whether a number is a power of two."""
    return value > 0 and value & (value - 1) == 0


class Parameters:
    """Base of the frozen dataclasses of parameters.

    ``<Name>Group``: the parameters of one table of a configuration, with what derives from them and their rules.
    ``<Name>Parameters``: what the units of one folder take. These are some groups, and single parameters or derived ones of other
    groups. A unit that reads anything else raises ``AttributeError``.
    """

    @classmethod
    def of(cls, cfg: "Parameters") -> Self:
        """The parameters of this class, of a ``Config`` or of any parameters that have them; every unit begins with it."""
        return cfg if type(cfg) is cls else cfg.narrowed(cls)

    def narrowed(self, kind: type[Kind]) -> Kind:
        """The parameters of ``kind`` alone, with the values that they have here."""
        return kind(**{field.name: getattr(self, field.name) for field in dataclasses.fields(kind)})     # type: ignore[arg-type]

    def _check(self) -> None:
        """Raises ``ConfigError`` where a parameter of this group violates a rule."""

    def _one_of(self, name: str, allowed: tuple[int, ...]) -> None:
        if getattr(self, name) not in allowed:
            raise ConfigError(f"{name} must be one of {', '.join(map(str, allowed))}, not {getattr(self, name)!r}")

    def _power(self, name: str, low: int, high: int) -> None:
        value: Any = getattr(self, name)
        if not power_of_two(value) or not low <= value <= high:
            raise ConfigError(f"{name} must be a power of two from {low} to {high}, not {value!r}")

    def _between(self, name: str, low: int, high: int) -> None:
        value: Any = getattr(self, name)
        if not low <= value <= high:
            raise ConfigError(f"{name} must be from {low} to {high}, not {value!r}")
