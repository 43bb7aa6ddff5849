"""Configuration: the parameters of one generated device, validated once."""

import dataclasses
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from .constants import BANK_BYTES, BANKS, FIRST_FACTOR_REGISTER, LINE_BYTES, PRODUCT_REGISTERS, REGISTER_BITS
from .derived import DerivedParameters
from .errors import UsageError, UsageTypeError

__all__ = ["Config", "ConfigError", "load_config", "preset_names"]

CONFIG_DIRECTORY = Path(__file__).resolve().parents[2] / "configs"
NAME_LENGTH = 48        # leaves room in a file name for the keys of builds
_NAME = re.compile(rf"\w[\w.-]{{0,{NAME_LENGTH - 1}}}")        # one part of a path, and no option of a command


class ConfigError(UsageError):
    """A parameter, or a pair of parameters, violates a rule; the message names parameter, rule and value."""


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclass(frozen=True, kw_only=True)
class Config(DerivedParameters):
    """Configuration: parameters of one device.

    Parameters
    ----------
    name : str
        Name of the configuration, in manifests, benchmark rows and file names. 1 to 48 letters, digits, ``_``, ``-`` and ``.``; the
        first is no ``-`` or ``.``.
    threads : int
        Threads of a core, one PE each (8, 16, 32 or 64).
    dot : int
        Multipliers of a PE: elements of k that one step consumes (4, 8 or 16).
    shared_memory_kib : int
        Shared memory of a core in KiB, a power of two from 4 to 1024.
    factor_words : int
        Depth of the factor register file of a PE in words of ``dot`` bytes, a power of two from 32 to 8192. ``factor_words * dot / 4``
        register numbers must fit the 12-bit register field.
    instruction_words : int
        Depth of the instruction memory in 128-bit instructions, a power of two from 64 to 4096.
    axi_data_bits : int
        Width of the AXI data bus (64, 128, 256 or 512).
    axi_address_bits : int
        Width of an AXI byte address (16 to 32).
    axi_reads, axi_writes : int
        Outstanding read and write requests of the TMAU (2 to 128).
    thread_slots : int
        Threads that execute, load or store in the same cycle (1, 2, 4, 8 or 16). At most ``threads`` slots exist. More slots than the
        banks of shared memory (8) do not shorten memory accesses.
    thread_multipliers : int
        32-bit multipliers, four of 18 x 18 bits each, that the slots of a core share (1, 2, 4 or 8). At most one for each slot exists.
    matrix_queue, thread_queue, copy_queue : int
        Depth of the instruction queue of the matrix unit, thread unit and TMAU (2 to 16).
    issue_ahead : bool
        ``mm`` enters an empty matrix unit while loads of the factor words of its PEs are in flight. Fetches of B overlap with those
        loads [S0.10].
    fetch_words : int
        Words of B (``dot`` bytes each) that reach the PEs of a core per cycle at most, for merges of ``mm`` (1, 2, 4, 8 or 16).
    shared_writes : int
        Words of 16 bytes written to the shared memory of a core per cycle at most: 1, on one bus for all banks, or 8, one for each
        bank. 1 requires ``axi_data_bits`` of at most 128.
    cores : int
        Number of cores (1 to 16), each with its own shared memory, TMAU and AXI port.
    mm16 : bool
        The PEs also multiply 16-bit integers, a step in two passes: ``threads * dot / 4`` multiply-accumulates a cycle.
    transpose : bool
        ``mm`` also reads B stored in rows of k instead of columns (``.t1``).
    wait_timeout : bool
        Waits of a program may have a limit of cycles (register ``wait_timeout``).
    multicast : bool
        Loads may write the shared memories of several cores at once (``.multicast``); requires ``cores`` of at least 2.
    tensors : bool
        The TMAU also copies boxes of tensors.
    tensor_im2col : bool
        Tensor copies also have the im2col mode.
    tensor_floats : bool
        Loads of tensors also round to TF32 and flush subnormal numbers.
    copy_within : bool
        ``copy_block`` also copies within shared memory and within global memory.
    tensor_interleave, tensor_strides, tensor_nan : bool
        Tensors may have interleaved channel slices; traversal strides other than 1; fill by NaN.
    copy_swizzles : bool
        Copies may swizzle: permute the 16-byte blocks of the rows of shared memory.
    l2_kib : int
        L2 cache of the device in KiB, a power of two up to 4096 and up to half of global memory; 0: none. With L2 ``cores`` is a power
        of two. Each way of each core's bank has at least two lines of ``LINE_BYTES``.
    l2_ways : int
        Associativity of the L2 cache (1, 2, 4 or 8).
    reductions : bool
        Writes to global memory may be reductions, element by element; requires the L2 cache.
    reduction_floats : bool
        Reductions also of f16, bf16 and f32; requires ``reductions``.
    far_registers : bool
        Register stages between units and in front of the PEs, for chips that a signal does not cross in a cycle. Latencies grow by
        cycles; steps of ``mm`` and beats of copies remain one a cycle.
    rnn : bool
        The recurrent engine exists. The PEs then multiply 9 x 16 bit and have up to four CAT taps each.
    rnn_contexts : int
        Contexts of the recurrent engine: tasks that are interleaved (1, 2, 4 or 8).
    rnn_elements : int
        Vector memory of the recurrent engine in elements of 16 bits, a power of two from 256 to 65536.
    rnn_records : int
        Depth of its tables of matrix-vector passes and of tail operations, a power of two from 8 to 256.
    rnn_tap_registers : int
        Accumulators of each CAT tap of a PE but the first, a power of two from 16 to 256. Most of the area that
        the engine adds to a PE is in these accumulators. Layers that need more use one dot product per PE.
    rnn_differences : bool
        Delta threshold: the engine can multiply differences to a reference vector and skip small ones. The PEs then multiply 9 x 17
        bit.
    wide_lanes : bool
        Every other multiplier takes 17 x 17 bit, so that ``mm16`` needs one pass: ``threads * dot / 2`` a cycle. Requires ``mm16``.

    Raises
    ------
    ConfigError
        When a value violates a rule: ``<parameter> must be <rule>, not <value>``.
    """

    name: str = "custom"
    threads: int = 32
    dot: int = 8
    shared_memory_kib: int = 128
    factor_words: int = 1024
    instruction_words: int = 1024
    axi_data_bits: int = 256
    axi_address_bits: int = 32
    axi_reads: int = 96
    axi_writes: int = 32
    thread_slots: int = 8
    thread_multipliers: int = 8
    matrix_queue: int = 8
    thread_queue: int = 4
    copy_queue: int = 8
    fetch_words: int = 16
    issue_ahead: bool = False
    shared_writes: int = 8
    cores: int = 1
    mm16: bool = True
    wide_lanes: bool = False
    transpose: bool = True
    wait_timeout: bool = True
    multicast: bool = False
    tensors: bool = False
    tensor_im2col: bool = True
    tensor_floats: bool = True
    copy_within: bool = False
    tensor_interleave: bool = True
    tensor_strides: bool = True
    tensor_nan: bool = True
    copy_swizzles: bool = True
    l2_kib: int = 0
    l2_ways: int = 4
    reductions: bool = False
    reduction_floats: bool = False
    far_registers: bool = False
    rnn: bool = False
    rnn_contexts: int = 4
    rnn_elements: int = 8192
    rnn_records: int = 32
    rnn_tap_registers: int = 64
    rnn_differences: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(f"name must be 1 to {NAME_LENGTH} letters, digits, _, - and . (the first no - or .), not {self.name!r}")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is bool and not isinstance(value, bool):
                raise ConfigError(f"{field.name} must be true or false, not {value!r}")
            if field.type is int and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{field.name} must be an integer, not {value!r}")
        self._one_of("threads", (8, 16, 32, 64))
        self._one_of("dot", (4, 8, 16))
        self._one_of("axi_data_bits", (64, 128, 256, 512))
        self._one_of("thread_slots", (1, 2, 4, 8, 16))
        self._one_of("thread_multipliers", (1, 2, 4, 8))
        self._one_of("fetch_words", (1, 2, 4, 8, 16))
        self._one_of("shared_writes", (1, 8))
        if self.shared_writes == 1 and self.axi_data_bits > 8 * BANK_BYTES:
            raise ConfigError(f"shared_writes must be {BANKS} with axi_data_bits = {self.axi_data_bits}, not 1")
        self._power("shared_memory_kib", 4, 1024)
        self._power("instruction_words", 64, 4096)
        self._power("factor_words", 32, 8192)
        self._between("axi_address_bits", 16, 32)
        self._between("axi_reads", 2, 128)
        self._between("axi_writes", 2, 128)
        for queue in ("matrix_queue", "thread_queue", "copy_queue"):
            self._between(queue, 2, 16)
        self._between("cores", 1, 16)
        if self.wide_lanes and not self.mm16:
            raise ConfigError("wide_lanes must be false with mm16 = False, not True")
        if self.multicast and self.cores == 1:
            raise ConfigError("multicast must be false with cores = 1, not True")
        self._check_second_level()
        self._one_of("rnn_contexts", (1, 2, 4, 8))
        self._power("rnn_elements", 256, 65536)
        self._power("rnn_records", 8, 256)
        self._power("rnn_tap_registers", 16, PRODUCT_REGISTERS)
        last = FIRST_FACTOR_REGISTER + self.factor_registers
        if last > 1 << REGISTER_BITS:
            raise ConfigError(
                f"factor_words must be at most {((1 << REGISTER_BITS) - FIRST_FACTOR_REGISTER) * 4 // self.dot} "
                f"with dot = {self.dot} (register numbers have {REGISTER_BITS} bits), not {self.factor_words}")

    def _check_second_level(self) -> None:
        self._one_of("l2_ways", (1, 2, 4, 8))
        for name, needed in (("reductions", "l2_kib"), ("reduction_floats", "reductions")):
            if getattr(self, name) and not getattr(self, needed):
                raise ConfigError(f"{name} must be false with {needed} = {getattr(self, needed)}, not True")
        if not self.l2_kib:
            return
        if not _power_of_two(self.cores):
            raise ConfigError(f"l2_kib must be 0 with cores = {self.cores}, not {self.l2_kib}")
        least = 2 * LINE_BYTES * self.cores * self.l2_ways
        self._power("l2_kib", max(1, least // 1024), min(4096, 1 << (self.axi_address_bits - 11)))

    def _one_of(self, name: str, allowed: tuple[int, ...]) -> None:
        if getattr(self, name) not in allowed:
            raise ConfigError(f"{name} must be one of {', '.join(map(str, allowed))}, not {getattr(self, name)!r}")

    def _power(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if not _power_of_two(value) or not low <= value <= high:
            raise ConfigError(f"{name} must be a power of two from {low} to {high}, not {value!r}")

    def _between(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if not low <= value <= high:
            raise ConfigError(f"{name} must be from {low} to {high}, not {value!r}")

    def replace(self, **changes: Any) -> Self:
        """A copy with some parameters changed, validated again."""
        return dataclasses.replace(self, **changes)

    def without_level2(self, **changes: Any) -> Self:
        """A copy without L2 cache and reductions, for numbers of cores that the L2 cache does not support."""
        return self.replace(l2_kib=0, reductions=False, reduction_floats=False, **changes)

    def as_dict(self) -> dict[str, str | int]:
        """The parameters as a plain dictionary, ready for JSON."""
        return dataclasses.asdict(self)


def preset_names() -> list[str]:
    """Names of the configurations of the project."""
    return sorted(path.stem for path in CONFIG_DIRECTORY.glob("*.toml"))


def load_config(name_or_path: str | os.PathLike[str]) -> Config:
    """Load a configuration by preset name (``"base"``) or by path of a TOML file.

    A file has keys of ``Config``; absent keys have the defaults of ``Config``. The key ``extends`` names a base configuration, a preset
    or a path relative to the file. Absent keys, except ``name``, then have the values of the base configuration. The name is that of
    the file unless the file has a key ``name``.

    Raises
    ------
    TypeError
        When the argument is neither a name nor a path.
    ConfigError
        When the configuration does not exist, a file is no TOML text, a key is unknown, ``extends`` forms a cycle, or a value violates
        a rule.
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
    known = sorted(["extends", *(field.name for field in dataclasses.fields(Config))])
    for key in values:
        if key not in known:
            raise ConfigError(f"{path}: {key} must be one of {', '.join(known)}")
    return values


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
