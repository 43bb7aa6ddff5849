"""Options of ``heddle run`` that tell where cycles go: ``--trace``, ``--report`` and ``--wave``."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from heddle.errors import UsageError

from ..device.recording import LEAST_INTERVAL, LayerRecord, recording
from ..packages import needed
from .common import from_zero
from .files import file_path, write_text

if TYPE_CHECKING:
    from ..device.device import Device
    from ..models.placement import PlacedNode

__all__ = ["add_tracing", "add_wave_layer", "check_tracing", "check_wave_layer", "traced"]

_EVERYTHING = 0, None


def add_tracing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trace", metavar="FILE.json", help="write a trace for Perfetto or Chrome: a track for each unit and core, one "
                        "cycle as one microsecond")
    parser.add_argument("--report", metavar="FILE.html", help="write a page: layers, roofline, where cycles went, what would help")
    parser.add_argument("--sample-cycles", type=from_zero, default=256, metavar="N",
                        help=f"cycles between samples of the counters for these two, from {LEAST_INTERVAL} (default 256; 0: none)")
    parser.add_argument("--wave", metavar="FILE.fst|FILE.vcd", help="write the waves of all signals, by a build of the hardware that can")
    parser.add_argument("--wave-cycles", type=_range, metavar="FIRST:COUNT", help="of which cycles (default: all)")


def add_wave_layer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wave-layer", metavar="NODE", help="waves of this node only: its name or number; --wave-cycles are "
                        "cycles of it then")


def _range(text: str) -> tuple[int, int | None]:
    """Type of an option: first cycle and number of cycles."""
    first, _, count = text.partition(":")
    if int(first) < 0 or int(count) < 1:
        raise ValueError(text)
    return int(first), int(count)


_range.__name__ = "FIRST:COUNT, integers from 0 and from 1"


def check_tracing(options: argparse.Namespace) -> None:
    """Raises before anything runs for files that could not be written."""
    if 0 < options.sample_cycles < LEAST_INTERVAL:
        raise UsageError(f"--sample-cycles must be 0 or at least {LEAST_INTERVAL}, not {options.sample_cycles}")
    for option in ("trace", "report", "wave"):
        file = getattr(options, option)
        if file is None:
            continue
        if options.simulator == "golden":
            raise UsageError(f"--{option} must be used with --simulator verilator, not golden, which has no cycles")
        if not file_path(file).parent.is_dir():
            raise UsageError(f"--{option} must name a file in a folder that exists, not {file!r}")
    if options.wave is not None and Path(options.wave).suffix not in (".fst", ".vcd"):
        raise UsageError(f"--wave must name a file that ends in .fst or .vcd, not {options.wave!r}")
    for option in ("wave_cycles", "wave_layer"):
        if options.wave is None and getattr(options, option, None) is not None:
            raise UsageError(f"--{option.replace('_', '-')} must be used with --wave FILE")
    if options.report is not None:
        needed("matplotlib", "--report", "report")


def check_wave_layer(options: argparse.Namespace, placement: Sequence[PlacedNode]) -> str | None:
    """Name of the node whose waves are asked for, or of its chain. Raises where it is none of the device, or nothing says which part of a
    network."""
    if options.wave is None:
        return None
    wanted = options.wave_layer
    if wanted is None:
        if options.wave_cycles is None:
            raise UsageError("--wave must be used with --wave-layer NODE or --wave-cycles FIRST:COUNT for a network")
        return None
    for placed in placement:
        if wanted in (placed.node.name, *placed.node.name.split(" ", 1)):       # number and name of its result
            if placed.operation is None:
                raise UsageError(f"--wave-layer must name a node on the device, not {placed.node.op} {placed.node.name} on the host")
            return placed.node.name if placed.chain is None else placed.chain.name
    raise UsageError(f"--wave-layer must be the name or the number of a node, as its row has them, not {wanted!r}")


@contextmanager
def traced(options: argparse.Namespace, name: str, device: Callable[[], Device], *, wave_layer: str | None = None,
           loose: bool = True) -> Iterator[None]:
    """Write the files that the options ask for, from all that runs within the context.

    ``name``: of what runs; ``device``: gives what runs it; ``wave_layer``: whose waves are asked for; ``loose``: runs that belong to no
    layer count too.
    """
    if options.trace is options.report is options.wave is None:
        yield
        return

    def wave() -> AbstractContextManager[None]:
        return device().wave(options.wave, *(options.wave_cycles or _EVERYTHING))

    def around(layer: LayerRecord) -> AbstractContextManager[None]:
        return wave() if wave_layer is not None and layer.name == wave_layer else nullcontext()

    sampling = options.sample_cycles if options.trace is not None or options.report is not None else 0
    with ExitStack() as stack:
        recorder = stack.enter_context(recording(sampling, loose, around))
        if options.wave is not None and wave_layer is None:
            stack.enter_context(wave())
        yield
    if options.trace is not None:
        from ..profile.trace_events import trace_events

        write_text(options.trace, json.dumps(trace_events(recorder, name)))
    if options.report is not None:
        from ..profile.report import report

        write_text(options.report, report(recorder, name, shlex.join(["heddle", *sys.argv[1:]])))
