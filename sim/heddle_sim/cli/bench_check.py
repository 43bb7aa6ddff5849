"""``heddle bench check``: the figures of the pages, measured again and compared."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from heddle.errors import UsageError

from .common import CommandFailed, add_json, positive, print_json
from .figures import FIGURES, Command, Figure, load_figures, printed_like, store_figures

__all__ = ["add_check", "run_check"]

MINUTES = 45
MAIN = "import sys; from heddle_sim.cli import main; sys.exit(main())"


def add_check(what: argparse._SubParsersAction) -> argparse.ArgumentParser:
    """The parser of the verb."""
    check = what.add_parser("check", help="the figures of the pages, measured again and compared with stored rows")
    check.add_argument("--synth", action="store_true", help="synthesis and routing too (an hour)")
    check.add_argument("--only", metavar="TEXT", help="commands that contain a text, or of pages whose name does")
    check.add_argument("--minutes", type=positive, default=MINUTES, help=f"commands that would begin later fail (default {MINUTES})")
    check.add_argument("--update", action="store_true", help="store what was measured; scripts/docs.sh pages then writes the tables")
    check.add_argument("--figures", metavar="FILE", default=FIGURES, help="stored rows (default: those of the package)")
    add_json(check)
    return check


def run_check(options: argparse.Namespace) -> None:
    """Print a line for each figure; raises ``CommandFailed`` when one differs."""
    try:
        commands = load_figures(options.figures)
    except ValueError as error:
        raise UsageError(str(error)) from None
    chosen = [command for command in commands if (options.synth or not command.synthesis)
              and (not options.only or options.only in command.command or options.only in command.page)]
    if not chosen:
        raise UsageError(f"--only must be part of a command or of the name of a page, not {options.only!r}")
    started, results, measured = time.monotonic(), [], {}
    for command in chosen:
        if command.command not in measured:         # several pages may give figures of one command
            late = time.monotonic() - started > 60 * options.minutes
            measured[command.command] = (None, f"not run: {options.minutes} minutes are over", 0) if late else _measure(command.words)
        found, reason, command.measured_seconds = measured[command.command]
        results += [_result(command, figure, found, reason, options.update) for figure in command.figures]
        if not options.json:
            for result in results[len(results) - len(command.figures):]:
                print(_line(result), flush=True)
        if options.update:
            store_figures(commands, options.figures)
    if options.json:
        print_json("check", None, results)
    wrong = [result for result in results if not result["agrees"]]
    if wrong:
        raise CommandFailed(f"{len(wrong)} of {len(results)} figures differ from the stored ones or were not measured")


def _measure(words: list[str]) -> tuple[list[dict[str, Any]] | None, str | None, float]:
    """Rows of a command, or None; None, or the reason why there are no rows; seconds."""
    before = time.monotonic()
    done = subprocess.run([sys.executable, "-c", MAIN, *words, "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    seconds = round(time.monotonic() - before, 1)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1], seconds
    return json.loads(done.stdout)["rows"], None, seconds


def _result(command: Command, figure: Figure, found: list[dict[str, Any]] | None, error: str | None, update: bool) -> dict[str, Any]:
    """What became of a figure; the first value that differs, where several rows have it."""
    values = [row.get(figure.field) for row in figure.rows(found)] if found else []
    if found is not None and not values:
        error = "no such row"
    measured = next((value for value in values if not figure.agrees(value)), values[0] if values else None)
    if update and measured is not None:
        figure.expected, command.commit, command.seconds = measured, _commit(), command.measured_seconds
        figure.shown = None if figure.shown is None else printed_like(measured, figure.shown)
    return {"page": command.page, "command": command.command, "where": figure.where, "field": figure.field, "expected": figure.expected,
            "tolerance": figure.tolerance, "measured": measured, "error": error, "agrees": bool(values) and all(map(figure.agrees, values))}


def _commit() -> str | None:
    done = subprocess.run(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or None


def _line(result: dict[str, Any]) -> str:
    where = " ".join(f"{name}={value}" for name, value in result["where"].items())
    found = result["error"] or f"{_text(result['measured'])}, expected {_text(result['expected'])}"
    return f"{'ok    ' if result['agrees'] else 'DIFFER'}  {result['page']}: heddle {result['command']}  {where} {result['field']}  {found}"


def _text(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
