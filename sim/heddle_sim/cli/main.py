"""Entry of the command line: verbs, exit codes, one line per error."""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import NoReturn

__all__ = ["main", "parser_of", "DONE", "FAILED", "VERBS", "WRONG_USE"]

DONE, FAILED, WRONG_USE = 0, 1, 2
# Verb: the first sentence of its module, which is imported when the verb runs.
VERBS = {
    "generate": "Generate Verilog, with a manifest",
    "asm": "Assemble a program",
    "disasm": "Turn instruction words back into text",
    "run": "Run something on the device: a matrix product of random integers, a program, or a network",
    "bench": "Measure: matrix products, copies, gathers, generation time, simulation speed",
    "synth": "Synthesise for an FPGA and count what it takes",
    "show": "Show what exists: configurations, registers, counters, error codes, units, instructions; or draw copies and timelines",
    "doctor": "Check the installation: what is there, what is missing, what to do about it",
}


class _Parser(argparse.ArgumentParser):
    """Wrong use is one line that names the help to read."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: error: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(WRONG_USE)


def parser_of(verb: str | None) -> argparse.ArgumentParser:
    """The parser, with the options of ``verb`` alone."""
    parser = _Parser(
        prog="heddle",
        description="An open tensor core: generate it, program it, run it, measure it.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong use.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="verb", parser_class=_Parser)
    for name, text in VERBS.items():
        if name != verb:
            verbs.add_parser(name, help=text)
            continue
        module = importlib.import_module(f"..{name}", __name__)
        options = verbs.add_parser(name, help=text, description=(module.__doc__ or "").strip(),
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(options)
        options.set_defaults(execute=module.execute)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; returns 0 when it is done, 1 when it failed and 2 when it was used wrongly."""
    with _standard_output():
        return _run(sys.argv[1:] if arguments is None else arguments, own=arguments is None)


@contextmanager
def _standard_output() -> Iterator[None]:
    """Characters that the encoding of standard output lacks are written as escapes; a closed standard output takes everything."""
    with ExitStack() as stack:
        if sys.stdout is None:
            stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        elif isinstance(sys.stdout, io.TextIOWrapper):
            stream, errors = sys.stdout, sys.stdout.errors
            stream.reconfigure(errors="backslashreplace")
            stack.callback(stream.reconfigure, errors=errors)
        yield


def _completed(arguments: list[str]) -> list[str]:
    """``run`` with the name of a file, a word with a dot, behind it is ``run model``."""
    if arguments[:1] == ["run"] and "." in "".join(arguments[1:2]):
        return ["run", "model", *arguments[1:]]
    return arguments


def _run(arguments: list[str], own: bool) -> int:
    """``own``: this process does nothing else."""
    try:
        arguments = _completed(arguments)
        options = parser_of(next((text for text in arguments if not text.startswith("-")), None)).parse_args(arguments)
    except SystemExit as end:
        return int(end.code or DONE)
    from heddle.errors import HeddleError
    from heddle.processes import exit_when_terminated

    if own:
        exit_when_terminated()
    try:
        options.execute(options)
        sys.stdout.flush()
        return DONE
    except HeddleError as error:
        return _say(options, error, WRONG_USE if error.wrong_use else FAILED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of a pipe has left
        return DONE
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        return _say(options, error, WRONG_USE)
    except (OSError, ImportError) as error:
        return _say(options, error, FAILED)
    except MemoryError as error:
        return _say(options, f"out of memory: {error}", FAILED)
    except KeyboardInterrupt:
        return _say(options, "interrupted", FAILED)


def _say(options: argparse.Namespace, error: object, code: int) -> int:
    text = " | ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
    print(f"heddle {options.verb}: error: {text}", file=sys.stderr)
    return code
