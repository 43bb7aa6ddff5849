"""Options and output that several verbs share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle import ConfigError, load_config
from heddle.config import Config
from heddle.errors import HeddleError, UsageError

from ..backends.verilator_device import MAX_COUNT, MAX_SEED, MemorySettings
from ..isa.features import presets_with
from ..progress import Progress, default_progress

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = [
    "MOST_ELEMENTS",
    "CommandFailed",
    "add_config",
    "add_json",
    "add_device",
    "check_result",
    "configuration",
    "from_zero",
    "megahertz",
    "open_device",
    "print_rows",
    "positive",
    "print_json",
    "elements",
    "progress_for",
    "require",
    "seconds",
    "seed",
    "variant_name",
    "steps",
]

MOST_ELEMENTS, MOST_STEPS = 1 << 13, 1 << 16       # of drawn networks: what a computer of some GiB holds


class CommandFailed(HeddleError):
    """The command could not do what it was asked; exit code 1."""


def positive(text: str) -> int:
    """Type of an option: an integer from 1."""
    return _integer(text, 1, MAX_COUNT)


def elements(text: str) -> int:
    """Type of an option: elements of a vector of a recurrent network."""
    return _integer(text, 1, MOST_ELEMENTS)


def steps(text: str) -> int:
    """Type of an option: steps of a sequence."""
    return _integer(text, 1, MOST_STEPS)


def seed(text: str) -> int:
    """Type of an option: a seed of random numbers."""
    return _integer(text, 0, MAX_SEED)


def from_zero(text: str) -> int:
    """Type of an option: an integer from 0."""
    return _integer(text, 0, MAX_COUNT)


def seconds(text: str) -> float:
    """Type of an option: a time."""
    value = float(text)
    if not 0 < value <= MAX_COUNT:
        raise ValueError(text)
    return value


def megahertz(text: str) -> float:
    """Type of an option: a clock frequency in MHz, to 10 GHz."""
    value = float(text)
    if not 1 <= value <= 10_000:
        raise ValueError(text)
    return value


def _integer(text: str, low: int, high: int) -> int:
    value = int(text)
    if not low <= value <= high:
        raise ValueError(text)
    return value


# What argparse calls them in its messages.
positive.__name__, seed.__name__, from_zero.__name__ = "positive integer", "seed (an integer from 0)", "integer from 0"
elements.__name__, steps.__name__ = f"number of elements from 1 to {MOST_ELEMENTS}", f"number of steps from 1 to {MOST_STEPS}"
seconds.__name__, megahertz.__name__ = "number of seconds", "number of MHz from 1 to 10000"


def add_config(parser: argparse.ArgumentParser, default: str | None = "base", said: str | None = None) -> None:
    """``--config``; ``said`` describes a default that depends on other options."""
    parser.add_argument(
        "--config",
        default=default,
        metavar="NAME|FILE",
        help=f"configuration (default {said or default}; see heddle show configs)",
    )


def add_json(parser: argparse.ArgumentParser, default: Any = False) -> None:
    """``--json``; where a verb has it too, ``default`` of what is behind the verb is ``argparse.SUPPRESS``."""
    parser.add_argument("--json", action="store_true", default=default, help="print one JSON object and nothing else on standard output")


def add_device(parser: argparse.ArgumentParser) -> None:
    """Options of the simulated device."""
    from ..device.device import SIMULATORS

    parser.add_argument(
        "--simulator", default="verilator", choices=SIMULATORS, help="what executes programs (default verilator)"
    )
    parser.add_argument("--latency", type=positive, default=64, help="cycles to the first beat of a read (default 64)")
    parser.add_argument(
        "--bandwidth", type=float, default=1.0, help="beats per cycle in each direction, up to 1 (default 1)"
    )
    parser.add_argument(
        "--jitter", type=from_zero, default=0, help="up to so many cycles more per burst, at random (default 0)"
    )
    parser.add_argument("--memory-mib", type=positive, default=64, help="size of global memory in MiB (default 64)")
    parser.add_argument(
        "--timeout-cycles", type=positive, default=20_000_000, help="cycles that a run may take (default 20000000)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars")


def configuration(options: argparse.Namespace) -> Config:
    """The configuration that ``--config`` names, or ``base``."""
    return load_config(options.config or "base")


def variant_name(cfg: Config, base: Config) -> str:
    """Name of a configuration that a verb made of ``base``: with the parameters that differ, as ``small+rnn+rnn_contexts=8``."""
    given = base.as_dict()
    changed = {name: value for name, value in cfg.as_dict().items() if name != "name" and value != given[name]}
    return base.name + "".join(f"{'+' if value else '-'}{name}" if isinstance(value, bool) else f"+{name}={value}"
                               for name, value in changed.items())


def require(cfg: Config, parameter: str, what: str) -> None:
    """Raises ``UsageError`` where the configuration lacks a boolean parameter that ``what`` needs."""
    if not getattr(cfg, parameter):
        raise UsageError(f"--config must be one with {parameter} for {what} ({', '.join(presets_with(parameter))}), not {cfg.name}")


def progress_for(options: argparse.Namespace) -> Progress:
    """Bars where somebody watches and did not ask for silence."""
    return Progress() if getattr(options, "quiet", False) else default_progress()


def open_device(options: argparse.Namespace, cfg: Config, progress: Progress | None = None) -> Device:
    """The device that the options of ``add_device`` describe."""
    from ..device import Device

    try:
        settings = MemorySettings(
            latency=options.latency,
            bandwidth=options.bandwidth,
            jitter=options.jitter,
            seed=getattr(options, "seed", 0),
        )
        return Device(
            cfg,
            options.simulator,
            memory_bytes=options.memory_mib << 20,
            memory_settings=settings,
            timeout_cycles=options.timeout_cycles,
            progress=progress,
            waves=Path(options.wave).suffix[1:] if getattr(options, "wave", None) else None,
        )
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def check_result(name: str, found: np.ndarray, expected: np.ndarray, source: str, about: str) -> None:
    """Raises ``CommandFailed`` with the first element in which the array ``name`` of a device differs from that of ``source``; ``about``:
    what it was the result of."""
    if np.array_equal(found, expected):
        return
    place = tuple(int(index) for index in np.argwhere(found != expected)[0])
    raise CommandFailed(f"result must equal {source}'s: {name}{list(place)} is {found[place]}, not {expected[place]} ({about}); please "
                        "report it")


def print_json(bench: str, config: str | None, rows: list[dict[str, Any]]) -> None:
    """The JSON object of a verb: what was done, the configuration by name (None: any), and the rows."""
    print(json.dumps({"bench": bench, "config": config, "rows": rows}))


def print_rows(options: argparse.Namespace, bench: str, config: str, rows: list[dict[str, Any]], columns: Mapping[str, str | None]) -> None:
    """Print rows as JSON or as a table of ``columns`` (field name to heading or None)."""
    if options.json:
        print_json(bench, config, rows)
        return
    if config != getattr(options, "config", config):
        print(f"configuration {config}")
    cells = [[heading or name for name, heading in columns.items()]]
    cells += [[_text(name, row.get(name)) for name in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _text(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "utilization":
        return f"{100 * value:.1f} %"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
