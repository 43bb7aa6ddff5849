"""Verilated device: memory, registers and clock cycles through the C++ harness."""

import ctypes
from pathlib import Path

import numpy as np
from heddle.config import Config
from heddle.errors import HeddleError, UsageError, UsageTypeError
from numpy.typing import ArrayLike

from ..arguments import check_flag, check_integer, check_number
from ..progress import Progress
from .sampling import PORT_COUNTERS
from .verilator_build import device_library, device_verilog, simulated_device

__all__ = ["MemorySettings", "RtlSimulation", "SimulationError"]

INTERRUPT_SLICE = 1 << 20  # cycles simulated at a stretch, so that Ctrl-C is answered
RESET_CYCLES = 8
MAX_COUNT, MAX_SEED = (1 << 32) - 1, (1 << 64) - 1        # of the fields of AxiSettings
RESPONSES = {0: "OKAY", 1: "EXOKAY", 2: "SLVERR", 3: "DECERR", -1: "no answer"}


class SimulationError(HeddleError, RuntimeError):
    """The simulated hardware violated a rule of its interface (AXI protocol, unanswered register access)."""


class _Settings(ctypes.Structure):
    """``AxiSettings`` of cpp/axi_memory.hpp."""

    _fields_ = [
        ("seed", ctypes.c_uint64),
        ("error_base", ctypes.c_uint64),
        ("error_size", ctypes.c_uint64),
        ("bandwidth", ctypes.c_double),
        ("stall", ctypes.c_double),
        ("latency", ctypes.c_uint32),
        ("jitter", ctypes.c_uint32),
        ("outstanding", ctypes.c_uint32),
        ("reorder", ctypes.c_uint32),
        ("interleave", ctypes.c_uint32),
    ]


class MemorySettings:
    """Timing and errors of the simulated global memory.

    Parameters
    ----------
    latency : int
        Cycles from an accepted read address to its first beat, and from the last beat of a write to its response; from 1.
    bandwidth : float
        Beats per cycle in each direction of each AXI port, above 0 to 1.
    jitter : int
        Largest number of random extra cycles of latency of a burst.
    stall : float
        Share of cycles, from 0 to below 1, in which each channel stalls at random.
    outstanding : int
        Outstanding bursts that the memory accepts in each direction of each port (from 1).
    reorder : bool
        Answers of different IDs may overtake each other (visible with jitter); answers of one ID are in order.
    interleave : bool
        Beats of read bursts of different IDs are interleaved.
    error_range : tuple of (int, int), optional
        Base and size in bytes of a range that is answered with SLVERR. Beyond the memory the answer is DECERR.
    seed : int
        Seed of all random choices.
    """

    def __init__(
        self,
        *,
        latency: int = 64,
        bandwidth: float = 1.0,
        jitter: int = 0,
        stall: float = 0.0,
        outstanding: int = 256,
        reorder: bool = True,
        interleave: bool = False,
        error_range: tuple[int, int] = (0, 0),
        seed: int = 0,
    ) -> None:
        for name, value, low in (
            ("latency", latency, 1),
            ("jitter", jitter, 0),
            ("outstanding", outstanding, 1),
            ("seed", seed, 0),
        ):
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < low:
                raise UsageError(f"{name} must be an integer from {low}, not {value!r}")
            if value > (most := MAX_SEED if name == "seed" else MAX_COUNT):
                raise UsageError(f"{name} must be an integer from {low} to {most}, not {value}")
        bandwidth, stall = check_number("bandwidth", bandwidth), check_number("stall", stall)
        if not 0 < bandwidth <= 1:
            raise UsageError(f"bandwidth must be above 0 and at most 1 (beats per cycle), not {bandwidth!r}")
        if not 0 <= stall < 1:
            raise UsageError(f"stall must be from 0 to below 1, not {stall!r}")
        self.latency, self.bandwidth, self.jitter, self.stall = (
            int(latency),
            float(bandwidth),
            int(jitter),
            float(stall),
        )
        self.outstanding = int(outstanding)
        self.reorder, self.interleave = check_flag("reorder", reorder), check_flag("interleave", interleave)
        self.error_range, self.seed = _error_range(error_range), int(seed)

    def as_structure(self) -> _Settings:
        base, size = self.error_range
        return _Settings(
            seed=self.seed,
            error_base=base,
            error_size=size,
            bandwidth=self.bandwidth,
            stall=self.stall,
            latency=self.latency,
            jitter=self.jitter,
            outstanding=self.outstanding,
            reorder=self.reorder,
            interleave=self.interleave,
        )


def _error_range(value: object) -> tuple[int, int]:
    """Base and size."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise UsageTypeError(f"error_range must be a tuple of base and size, not {value!r}")
    base, size = (check_integer(f"{name} of error_range", number, 0, MAX_SEED) for name, number in zip(("base", "size"), value))
    return base, size


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    handle, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    for name, result, arguments in (
        ("create", handle, [ctypes.c_void_p, u64]),
        ("destroy", None, [handle]),
        ("configure", None, [handle, ctypes.POINTER(_Settings)]),
        ("reset", None, [handle, u32]),
        ("run", None, [handle, u64]),
        ("cycles", u64, [handle]),
        ("trace_pins", u64, [handle]),
        ("open_waves", ctypes.c_int, [handle, ctypes.c_char_p]),
        ("write_waves", None, [handle, u64, u64]),
        ("waves_left", u64, [handle]),
        ("close_waves", None, [handle]),
        ("run_until_interrupt", ctypes.c_int, [handle, u64]),
        ("lite_write", ctypes.c_int, [handle, u32, u32]),
        ("lite_read", ctypes.c_int, [handle, u32, ctypes.POINTER(u32)]),
        ("lite_write_many", ctypes.c_int, [handle, ctypes.c_void_p, u64]),
        ("violation", ctypes.c_char_p, [handle]),
        ("traffic", None, [handle, ctypes.POINTER(u64 * 4)]),
        ("port_traffic", None, [handle, u32, ctypes.POINTER(u64 * 4)]),
    ):
        function = getattr(library, f"heddle_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class RtlSimulation:
    """Simulated device: the hardware of ``cfg`` compiled by Verilator, with ``memory`` as its global memory.

    Each AXI port of a core has the whole latency and bandwidth of the settings. The constructor resets the device; ``close`` frees it.

    Parameters
    ----------
    cfg : Config
        Configuration of the hardware.
    memory : numpy.ndarray
        Global memory from address 0: one-dimensional, contiguous, ``uint8``. The array is shared, not copied: writes of host and
        hardware between runs are visible to both.
    settings : MemorySettings, optional
        Timing and errors of the memory.
    verilog : str, optional
        Verilog of another design with the same ports and the module name ``heddle``.
    progress : Progress, optional
        Receives the stages of the build. The build is done once and cached.
    waves : str, optional
        "fst" or "vcd": a build that can write waves in this format, which is slower.
    """

    _handle = None      # until it is made

    def __init__(self, cfg: Config, memory: np.ndarray, settings: MemorySettings | None = None, *, verilog: str | None = None,
                 progress: Progress | None = None, waves: str | None = None) -> None:
        if not isinstance(cfg, Config):
            raise UsageTypeError(f"cfg must be a heddle.Config, not {type(cfg).__name__}")
        if not isinstance(memory, np.ndarray) or isinstance(memory, np.ma.MaskedArray):
            raise UsageTypeError(f"memory must be a numpy array without mask, not {type(memory).__name__}")
        if memory.dtype != np.uint8 or memory.ndim != 1 or not memory.flags.c_contiguous:
            raise UsageError(
                f"memory must be a contiguous one-dimensional uint8 array, not {memory.dtype} {memory.shape}"
            )
        progress = progress or Progress()
        self.cfg, self.memory = cfg, memory
        text = verilog if verilog is not None else (device_verilog if waves else simulated_device)(cfg, progress)
        self._library = _load(device_library(text, cfg, progress, waves))
        self._handle = self._library.heddle_create(memory.ctypes.data, memory.size)
        self.configure(settings or MemorySettings())
        self.reset()

    def configure(self, settings: MemorySettings) -> None:
        """Change the settings of the memory, from the next cycle on."""
        self.settings = settings
        self._library.heddle_configure(self._handle, ctypes.byref(settings.as_structure()))

    def reset(self, cycles: int = RESET_CYCLES) -> None:
        """Reset the hardware for ``cycles`` cycles; the memory retains its contents and drops outstanding bursts."""
        self._library.heddle_reset(self._handle, cycles)

    def write(self, address: int, value: int) -> None:
        """Write a 32-bit register over AXI4-Lite."""
        self._answered(self._library.heddle_lite_write(self._handle, address, value & 0xFFFFFFFF), "write", address)

    def write_many(self, pairs: ArrayLike) -> None:
        """Write (address, value) pairs in order: an integer array of shape (n, 2)."""
        pairs = np.ascontiguousarray(np.asarray(pairs, dtype=np.int64).reshape(-1, 2) & 0xFFFFFFFF, dtype=np.uint32)
        self._answered(self._library.heddle_lite_write_many(self._handle, pairs.ctypes.data, len(pairs)), "write", None)

    def read(self, address: int) -> int:
        """Read a 32-bit register over AXI4-Lite."""
        value = ctypes.c_uint32()
        self._answered(self._library.heddle_lite_read(self._handle, address, ctypes.byref(value)), "read", address)
        return value.value

    def run(self, cycles: int) -> None:
        """Simulate ``cycles`` clock cycles."""
        self._library.heddle_run(self._handle, cycles)
        self._check_protocol()

    def run_until_interrupt(self, max_cycles: int) -> bool:
        """Simulate until the interrupt is high; returns False if it is still low after ``max_cycles`` cycles."""
        while max_cycles > 0:
            part = min(max_cycles, INTERRUPT_SLICE)
            if self._library.heddle_run_until_interrupt(self._handle, part):
                self._check_protocol()
                return True
            max_cycles -= part
            self._check_protocol()
        return False

    def open_waves(self, path: str) -> None:
        """Waves go to a file until ``close_waves``; ``write_waves`` says of which cycles. Raises ``SimulationError`` in a build without."""
        if not self._library.heddle_open_waves(self._handle, path.encode()):
            raise SimulationError(f"waves must be written by a build with waves to a file that can be written, not to {path}")

    def write_waves(self, skip: int, count: int) -> None:
        """Waves of the next ``count`` cycles behind ``skip`` ones."""
        self._library.heddle_write_waves(self._handle, skip, count)

    def waves_left(self) -> int:
        """How many cycles of ``count`` are still to come."""
        return self._library.heddle_waves_left(self._handle)

    def close_waves(self) -> None:
        """End the file of the waves."""
        self._library.heddle_close_waves(self._handle)

    @property
    def cycles(self) -> int:
        """Simulated clock cycles."""
        return self._library.heddle_cycles(self._handle)

    def trace_pins(self) -> int:
        """Hash of all pins of the device in all cycles since the first call, of what an AXI channel sends while it is valid.

        Equal hashes mean equal pins in every cycle.
        """
        return self._library.heddle_trace_pins(self._handle)

    @property
    def traffic(self) -> dict[str, int]:
        """Bursts and beats that the memory has served: ``read_bursts read_beats write_bursts write_beats``."""
        counts = (ctypes.c_uint64 * 4)()
        self._library.heddle_traffic(self._handle, ctypes.byref(counts))
        return dict(zip(PORT_COUNTERS, counts, strict=True))

    def port_traffic(self, port: int) -> dict[str, int]:
        """``traffic`` of one AXI port, from 0."""
        counts = (ctypes.c_uint64 * 4)()
        self._library.heddle_port_traffic(self._handle, port, ctypes.byref(counts))
        return dict(zip(PORT_COUNTERS, counts, strict=True))

    def close(self) -> None:
        """Free the simulated device; safe to call twice."""
        if self._handle is not None:
            self._library.heddle_destroy(self._handle)
            self._handle = None

    def __del__(self) -> None:
        self.close()

    def _answered(self, response: int, kind: str, address: int | None) -> None:
        if response:
            where = "" if address is None else f" of register {address:#x}"
            raise SimulationError(f"the {kind}{where} over AXI4-Lite ended with {RESPONSES.get(response, response)}")

    def _check_protocol(self) -> None:
        violation = self._library.heddle_violation(self._handle).decode()
        if violation:
            raise SimulationError(f"the device broke the AXI protocol: {violation}")
