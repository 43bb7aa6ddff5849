"""Records of what devices of this process ran: layers, their runs, and samples of the counters within each run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from heddle.config import Config
from heddle.errors import UsageError

from ..arguments import check_integer
from .stats import Stats

if TYPE_CHECKING:
    from ..backends.sampling import CounterSamples
    from ..kernels.kernel import Kernel

__all__ = ["LEAST_INTERVAL", "LayerRecord", "Recorder", "RunRecord", "active_recorder", "executing", "record_layer", "recording"]

LEAST_INTERVAL = 64         # cycles in which each counter comes to its word of memory once
# Of the kernel that is executed: its name, and whether the run counts.
_LAUNCH: ContextVar[tuple[str, bool]] = ContextVar("launch", default=("program", True))
_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder of runs", default=None)


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A run of a program.

    Attributes
    ----------
    name : str
        Of the kernel that wrote the program; "program" without one.
    stats : Stats
    counted : bool
        Whether its figures are those of a problem, as those of loads in front of it are not.
    samples : CounterSamples or None
        None where there is no clock, or none were asked for.
    """

    name: str
    stats: Stats
    counted: bool
    samples: CounterSamples | None


@dataclass(eq=False)
class LayerRecord:
    """What a layer ran.

    Attributes
    ----------
    name, op : str
        Of the node, and of its operator.
    where : str
        "device" or "host".
    runs : list of RunRecord
    seconds : float
        Wall time on the host, where it ran there.
    macs : int or None
        Multiply-accumulates of the layer, where they are not those of its runs.
    """

    name: str
    op: str
    where: str = "device"
    runs: list[RunRecord] = field(default_factory=list)
    seconds: float = 0.0
    macs: int | None = None

    @property
    def stats(self) -> Stats | None:
        """Figures, added up over all runs that count; None where there are none."""
        counted = [run.stats for run in self.runs if run.counted]
        if not counted:
            return None
        stats = reduce(add, counted)
        return stats if self.macs is None else replace(stats, macs=self.macs)


Around = Callable[[LayerRecord], AbstractContextManager[None]]


def _nothing(layer: LayerRecord) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(eq=False)
class Recorder:
    """Layers in the order in which they ran.

    Attributes
    ----------
    sample_cycles : int
        Cycles between samples of the counters; 0: no samples.
    loose : bool
        A run outside of ``record_layer`` is a layer by itself, else it is left out.
    around : function of a LayerRecord
        Gives a context for what runs in the layer.
    cfg : Config or None
        Of the first device that ran.
    layers : list of LayerRecord
    """

    sample_cycles: int
    loose: bool = True
    around: Around = _nothing
    cfg: Config | None = None
    layers: list[LayerRecord] = field(default_factory=list)
    open_layer: LayerRecord | None = None

    @property
    def stats(self) -> Stats | None:
        """Figures, added up over all layers; None where no device ran."""
        found = [stats for layer in self.layers if (stats := layer.stats) is not None]
        return reduce(add, found) if found else None

    def add_run(self, cfg: Config, stats: Stats, samples: CounterSamples | None) -> None:
        """Add a run to the open layer, or as a layer."""
        self.cfg = self.cfg or cfg
        name, counted = _LAUNCH.get()
        layer = self.open_layer
        if layer is None and not self.loose:
            return
        if layer is None:
            layer = LayerRecord(name, name)
            self.layers.append(layer)
        layer.runs.append(RunRecord(name, stats, counted, samples))


def _name_of(kernel: Kernel) -> str:
    """Words of the name of its class: "compiled convolution"."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(kernel).__name__.removesuffix("Kernel")).lower()


@contextmanager
def recording(sample_cycles: int = 256, loose: bool = True, around: Around = _nothing) -> Iterator[Recorder]:
    """A ``Recorder`` of what devices of this process run within the context.

    Parameters
    ----------
    sample_cycles : int
        Cycles between samples of the counters, from 64; 0: figures of whole runs only.
    loose : bool
        Runs that belong to no layer are recorded too, each as a layer.
    around : function of a LayerRecord
        Gives a context for what runs in a layer.

    Samples change no result and no figure of a run. Without the context nothing is recorded, and nothing takes time.
    """
    sample_cycles = check_integer("sample_cycles", sample_cycles, 0, (1 << 31) - 1)
    if 0 < sample_cycles < LEAST_INTERVAL:
        raise UsageError(f"sample_cycles must be 0 or at least {LEAST_INTERVAL}, not {sample_cycles}")
    recorder = Recorder(sample_cycles, loose, around)
    token = _RECORDER.set(recorder)
    try:
        yield recorder
    finally:
        _RECORDER.reset(token)


def active_recorder() -> Recorder | None:
    """The recorder of the innermost ``recording``, or None."""
    return _RECORDER.get()


@contextmanager
def record_layer(name: str, op: str, where: str = "device") -> Iterator[LayerRecord | None]:
    """Runs within the context belong to a layer; None without ``recording``."""
    recorder = _RECORDER.get()
    if recorder is None:
        yield None
        return
    before, layer = recorder.open_layer, LayerRecord(name, op, where)
    recorder.layers.append(layer)
    recorder.open_layer = layer
    try:
        with recorder.around(layer):
            yield layer
    finally:
        recorder.open_layer = before


@contextmanager
def executing(kernel: Kernel, counted: bool) -> Iterator[None]:
    """Runs within the context are those of a launch of ``kernel``."""
    if _RECORDER.get() is None:
        yield
        return
    token = _LAUNCH.set((_name_of(kernel), counted))
    try:
        yield
    finally:
        _LAUNCH.reset(token)
