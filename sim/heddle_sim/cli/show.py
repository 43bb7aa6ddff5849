"""Show what exists: configurations, registers, counters, error codes, units, instructions. Or draw: where a tensor copy puts its box; which
threads of a recurrent layer compute when; what the threads of a convolution read; which core does which rows of a sparse product."""

import argparse
from collections.abc import Iterator
from typing import Any

from heddle import load_config
from heddle.config import preset_names
from heddle.isa.counter_table import BREAKDOWN, COUNTERS
from heddle.isa.error_messages import ERROR_MESSAGES
from heddle.isa.instructions import INSTRUCTIONS
from heddle.isa.register_map import COUNTER_WINDOW, REGISTERS, UNIFORM_WINDOW, counter_addresses
from heddle.units import unit_names

from . import show_conv, show_rnn, show_sparse, show_tensormap
from .common import add_json, print_json

__all__ = ["add_arguments", "execute"]


def _configs() -> Iterator[dict[str, Any]]:
    for name in preset_names():
        yield {"name": name} | load_config(name).as_dict()


def _registers() -> Iterator[dict[str, Any]]:
    for name, (address, access, meaning) in REGISTERS.items():
        yield {"name": name, "address": address, "access": access, "meaning": meaning}
    yield {
        "name": "ur0 to ur63",
        "address": UNIFORM_WINDOW,
        "access": "wo",
        "meaning": "uniform registers, four bytes each",
    }
    yield {
        "name": "counters",
        "address": COUNTER_WINDOW,
        "access": "ro",
        "meaning": "performance counters, four bytes each",
    }


def _counters() -> Iterator[dict[str, Any]]:
    addresses = counter_addresses()
    texts = {"cycles": "cycles of the run, low word", "cycles_high": "its high word"} | BREAKDOWN | COUNTERS
    for name, address in addresses.items():
        kind = "breakdown" if name in BREAKDOWN else "counter"
        yield {"name": name, "address": address, "kind": kind, "meaning": texts[name]}


def _errors() -> Iterator[dict[str, Any]]:
    for code, message in ERROR_MESSAGES.items():
        yield {"name": code.name, "code": code.value, "meaning": message}


def _units() -> Iterator[dict[str, Any]]:
    for name in unit_names():
        yield {"name": name}


def _instructions() -> Iterator[dict[str, Any]]:
    for row in INSTRUCTIONS:
        yield {
            "name": row.mnemonic,
            "unit": row.unit,
            "operands": ", ".join(operand.kind for operand in row.operands),
            "meaning": row.doc,
        }


SUBJECTS = {
    "configs": _configs,
    "registers": _registers,
    "counters": _counters,
    "errors": _errors,
    "units": _units,
    "instructions": _instructions,
}
DESCRIPTIONS = {
    "configs": "All presets with their parameters. A .toml file of your own has any of these parameters, in tables (core, memory, ...) or "
               "outside of them; what it leaves out has the default of heddle.Config, or with extends = \"base\" the value of that "
               "configuration.",
}
DRAWINGS = {"tensormap": show_tensormap, "rnn": show_rnn, "conv": show_conv, "sparse": show_sparse}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="subject")
    for name in SUBJECTS:
        subject = subjects.add_parser(name, help=f"all {name}", description=DESCRIPTIONS.get(name))
        add_json(subject, argparse.SUPPRESS)
    for name, drawing in DRAWINGS.items():
        text = (drawing.__doc__ or "").strip()
        subject = subjects.add_parser(name, help=text.splitlines()[0].rstrip("."), description=text,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        drawing.add_arguments(subject)
        add_json(subject, argparse.SUPPRESS)


def execute(options: argparse.Namespace) -> None:
    if options.subject in DRAWINGS:
        DRAWINGS[options.subject].execute(options)
    else:
        _table(options)


def _table(options: argparse.Namespace) -> None:
    rows = list(SUBJECTS[options.subject]())
    if options.json:
        print_json(f"show {options.subject}", None, rows)
        return
    for row in rows:
        if "address" in row:
            row["address"] = f"{row['address']:#05x}"
    names = list(rows[0])
    widths = [max(len(name), *(len(str(row[name])) for row in rows)) for name in names]
    for cells in (names, *([str(row[name]) for name in names] for row in rows)):
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
