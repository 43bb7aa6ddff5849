"""Entry of the command line: verbs, exit codes, one line per error."""

import argparse
import os
import sys

from heddle import ConfigError
from heddle.yosys import YosysError
from heddle_fpga.place_and_route import NextpnrError

from ..backends.verilator_device import SimulationError
from ..device.errors import DeviceError, OutOfMemory
from ..isa import AssemblyError
from ..toolchain.build_cache import BuildError
from ..toolchain.programs import ToolError
from . import asm, bench, disasm, doctor, generate, run, show, synth
from .common import CommandFailed, UsageError

__all__ = ["main", "DONE", "FAILED", "WRONG_USE"]

DONE, FAILED, WRONG_USE = 0, 1, 2
VERBS = (generate, asm, disasm, run, bench, synth, show, doctor)
FAILURES = (
    CommandFailed,
    AssemblyError,
    BuildError,
    DeviceError,
    SimulationError,
    ToolError,
    YosysError,
    NextpnrError,
    OSError,
    ImportError,
)


class _Parser(argparse.ArgumentParser):
    """Wrong use is one line that names the help to read."""

    def error(self, message):
        print(f"{self.prog}: error: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(WRONG_USE)


def _parser():
    parser = _Parser(
        prog="heddle",
        description="An open tensor core: generate it, program it, run it, measure it.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong use.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="verb", parser_class=_Parser)
    for module in VERBS:
        name = module.__name__.rpartition(".")[2]
        text = module.__doc__.strip()
        verb = verbs.add_parser(
            name,
            help=text.splitlines()[0].rstrip("."),
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(verb)
        verb.set_defaults(execute=module.execute)
    return parser


def main(arguments=None):
    """Run one verb; returns 0 when it is done, 1 when it failed and 2 when it was used wrongly."""
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as end:
        return end.code or DONE
    try:
        options.execute(options)
        sys.stdout.flush()
        return DONE
    except (ConfigError, UsageError, OutOfMemory) as error:
        return _say(options, error, WRONG_USE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of a pipe has left
        return DONE
    except FAILURES as error:
        return _say(options, error, FAILED)
    except MemoryError as error:
        return _say(options, f"out of memory: {error}", FAILED)
    except KeyboardInterrupt:
        return _say(options, "interrupted", FAILED)


def _say(options, error, code):
    text = " | ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
    print(f"heddle {options.verb}: error: {text}", file=sys.stderr)
    return code
