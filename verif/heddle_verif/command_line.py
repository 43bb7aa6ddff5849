"""Calls of the command line in tests."""

import json

from heddle_sim.cli import main

__all__ = ["answer", "call"]


def call(capsys, *arguments):
    """Exit code, standard output, standard error of ``heddle`` with these arguments; ``capsys``: the fixture of pytest."""
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def answer(capsys, *arguments):
    """The JSON object of a command that ends well; nothing else is printed."""
    code, out, err = call(capsys, *arguments, "--json")
    assert (code, err) == (0, "") and out.count("\n") == 1
    found = json.loads(out)
    assert set(found) == {"bench", "config", "rows"}
    return found
