"""Configuration: the parameters of one generated device, validated once."""

import dataclasses
import inspect
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from .errors import UsageTypeError
from .parameters.core import CoreGroup
from .parameters.derived import DerivedParameters
from .parameters.front_end import FrontEndGroup
from .parameters.group import ConfigError, Parameters
from .parameters.l2 import L2Group
from .parameters.matrix import MatrixGroup
from .parameters.memory import MemoryGroup
from .parameters.rnn import RnnGroup
from .parameters.slices import SlicesGroup
from .parameters.sparse import SparseGroup
from .parameters.thread import ThreadGroup
from .parameters.tmau import TmauGroup

__all__ = ["Config", "ConfigError", "GROUPS", "load_config", "preset_names"]

CONFIG_DIRECTORY = Path(__file__).resolve().parents[2] / "configs"
NAME_LENGTH = 48        # leaves room in a file name for the keys of builds
_NAME = re.compile(rf"\w[\w.-]{{0,{NAME_LENGTH - 1}}}")        # one part of a path, and no option of a command


# The tables of a configuration.
GROUPS: dict[str, type[Parameters]] = {"core": CoreGroup, "front_end": FrontEndGroup, "thread": ThreadGroup, "matrix": MatrixGroup,
                                       "memory": MemoryGroup, "tmau": TmauGroup, "l2": L2Group, "rnn": RnnGroup,
                                       "sparse": SparseGroup, "slices": SlicesGroup}
_KEYS = {table: tuple(inspect.get_annotations(group)) for table, group in GROUPS.items()}       # parameters of each table
_TABLES = {key: table for table, keys in _KEYS.items() for key in keys}


def _flat(parameters: Mapping[str, Any], *others: str) -> dict[str, Any]:
    """Parameters without tables: those of each table, and those outside of them; ``others`` are keys beside ``Config``'s."""
    tables = {key: value for key, value in parameters.items() if key in GROUPS and (key not in _TABLES or isinstance(value, Mapping))}
    values = {key: value for key, value in parameters.items() if key not in tables}
    known = {"name", *others, *_TABLES}
    for key in values:
        if key not in known:
            raise ConfigError(f"{key} must be one of {', '.join(sorted(known | set(GROUPS)))}")
    for table, entries in tables.items():
        if not isinstance(entries, Mapping):
            raise ConfigError(f"{table} must be a table of parameters, not {entries!r}")
        for key, value in entries.items():
            if key not in _KEYS[table]:
                if key in _TABLES:
                    raise ConfigError(f"{key} must be in table {_TABLES[key]}, not in table {table}")
                if key in known:
                    raise ConfigError(f"{key} must be outside of tables, not in table {table}")
                raise ConfigError(f"{table}.{key} must be one of {', '.join(sorted(_KEYS[table]))}")
            if key in values:
                raise ConfigError(f"{key} must be in table {table} or outside of it, not both")
            values[key] = value
    return values


@dataclass(frozen=True, kw_only=True, init=False)
class Config(DerivedParameters):
    """Configuration: parameters of one device, in groups.

    Each group is a table of keywords, ``Config(matrix={"transpose": False})``. Its parameters are also keywords of their own,
    ``Config(transpose=False)``, and attributes, ``cfg.transpose``. Units take the parameters of their group alone: see ``Parameters``.

    Parameters
    ----------
    name : str
        Name of the configuration, in manifests, benchmark rows and file names. 1 to 48 letters, digits, ``_``, ``-`` and ``.``; the
        first is no ``-`` or ``.``.
    core : mapping
        Number and geometry of the cores: ``CoreGroup``.
    memory : mapping
        Shared memory of a core and its AXI port: ``MemoryGroup``.
    front_end : mapping
        Instruction memory and issue: ``FrontEndGroup``.
    thread : mapping
        SIMD lanes of the thread unit: ``ThreadGroup``.
    matrix : mapping
        Formats of the products and fetches of B: ``MatrixGroup``.
    tmau : mapping
        Copies that the TMAU has: ``TmauGroup``.
    l2 : mapping
        L2 cache of the device and reductions in it: ``L2Group``.
    rnn : mapping or bool
        Recurrent engine: ``RnnGroup``; a bool is its parameter ``rnn``.
    sparse : mapping or bool
        Sparse engine: ``SparseGroup``; a bool is its parameter ``sparse``.
    slices : mapping
        Register slices: ``SlicesGroup``.

    Raises
    ------
    ConfigError
        When a value violates a rule: ``<parameter> must be <rule>, not <value>``. When a parameter or table is unknown, a parameter is in
        another table than its own, or both in its table and outside of it.
    """

    name: str = "custom"

    def __init__(self, **parameters: Any) -> None:
        values = _flat(parameters)
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, values.get(field.name, field.default))
        self.__post_init__()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(f"name must be 1 to {NAME_LENGTH} letters, digits, _, - and . (the first no - or .), not {self.name!r}")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is bool and not isinstance(value, bool):
                raise ConfigError(f"{field.name} must be true or false, not {value!r}")
            if field.type is int and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{field.name} must be an integer, not {value!r}")
        for group in GROUPS.values():
            group._check(self)

    def replace(self, **changes: Any) -> Self:
        """A copy with some parameters changed, in tables or outside of them, validated again."""
        return dataclasses.replace(self, **_flat(changes))

    def without_level2(self, **changes: Any) -> Self:
        """A copy without L2 cache and reductions, for numbers of cores that the L2 cache does not support."""
        return self.replace(l2_kib=0, reductions=False, reduction_floats=False, **changes)

    def as_dict(self) -> dict[str, str | int]:
        """The parameters as a plain flat dictionary, ready for JSON and for ``Config(**...)``."""
        return {"name": self.name} | dataclasses.asdict(self)


def _signature() -> inspect.Signature:
    """What ``Config`` accepts: its parameters, and tables of them."""
    fields = {field.name: (field.type, field.default) for field in dataclasses.fields(Config)}
    fields = {"name": fields.pop("name")} | fields | {table: (Mapping, {}) for table in GROUPS if table not in fields}
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
                              *(inspect.Parameter(name, kind, annotation=type_, default=default)
                                for name, (type_, default) in fields.items())])


Config.__init__.__signature__ = _signature()        # type: ignore[attr-defined]


def preset_names() -> list[str]:
    """Names of the configurations of the project."""
    return sorted(path.stem for path in CONFIG_DIRECTORY.glob("*.toml"))


def load_config(name_or_path: str | os.PathLike[str]) -> Config:
    """Load a configuration by preset name (``"base"``) or by path of a TOML file.

    A file has the tables of ``Config``, or their keys outside of tables; absent keys have the defaults of ``Config``. The key ``extends``
    names a base configuration, a preset or a path relative to the file. Absent keys, except ``name``, then have the values of the base
    configuration. The name is that of the file unless the file has a key ``name``.

    Raises
    ------
    TypeError
        When the argument is neither a name nor a path.
    ConfigError
        When the configuration does not exist, a file is no TOML text, a key or table is unknown, a key is in another table than
        its own, or twice, ``extends`` forms a cycle, or a value violates a rule.
    """
    if not isinstance(name_or_path, (str, os.PathLike)):
        raise UsageTypeError(f"configuration must be a Config, a name or a path, not {name_or_path!r}")
    path = _find(name_or_path)
    if path is None:
        raise ConfigError(f"configuration must be one of {', '.join(preset_names())} or the path of a "
                          f".toml file, not {str(name_or_path)!r}")
    return Config(**{"name": path.stem} | _read(path))


def _find(name_or_path: str | os.PathLike[str], folder: Path | None = None) -> Path | None:
    """Path of a preset, or of a TOML file relative to ``folder``; ``None`` where the file does not exist."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = CONFIG_DIRECTORY / f"{name_or_path}.toml"
    elif folder is not None:
        path = folder / path
    try:
        return path if path.is_file() else None
    except (OSError, ValueError):       # a name that is too long, or with a zero byte
        return None


def _read(path: Path) -> dict[str, Any]:
    """The keys of a file merged with those of its base configurations; the names of these are left out."""
    merged = _keys(path)
    chain = {path.resolve()}
    while (base := _base(path, extends := merged.pop("extends", None))) is not None:
        if base.resolve() in chain:
            raise ConfigError(f"{path}: extends must not lead back to the file, not {extends!r}")
        chain.add(base.resolve())
        merged = {name: value for name, value in _keys(base).items() if name != "name"} | merged
        path = base
    return merged


def _keys(path: Path) -> dict[str, Any]:
    """The keys of a file, ``extends`` among them."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise ConfigError(f"{path}: file must be TOML text in UTF-8: {error}") from None
    try:
        return _flat(values, "extends")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _base(path: Path, extends: object) -> Path | None:
    """The file that ``extends`` of the file ``path`` names, or ``None`` without it."""
    if extends is None:
        return None
    if not isinstance(extends, str):
        raise ConfigError(f"{path}: extends must be the name of a configuration or the path of a .toml file, not {extends!r}")
    base = _find(extends, path.parent)
    if base is None:
        raise ConfigError(f"{path}: extends must be one of {', '.join(preset_names())} or the path of a .toml file, not {extends!r}")
    return base
