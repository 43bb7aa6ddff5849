# mypy: disable-error-code="misc"
"""Amaranth's enumerations for mypy: those of Python, with a shape. All else of Amaranth comes without types."""

import enum
from enum import auto as auto
from enum import unique as unique
from typing import Any

class Enum(enum.Enum):
    def __init_subclass__(cls, *, shape: Any = None, view_class: Any = None, **options: Any) -> None: ...

class IntEnum(enum.IntEnum):
    def __init_subclass__(cls, *, shape: Any = None, view_class: Any = None, **options: Any) -> None: ...

class Flag(enum.Flag):
    def __init_subclass__(cls, *, shape: Any = None, view_class: Any = None, **options: Any) -> None: ...

class IntFlag(enum.IntFlag):
    def __init_subclass__(cls, *, shape: Any = None, view_class: Any = None, **options: Any) -> None: ...
