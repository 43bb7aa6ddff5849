"""The page of the command line, from the parsers of its verbs."""

import argparse
import os
from collections.abc import Iterator

from ..cli.main import VERBS, parser_of

__all__ = ["command_page"]


def command_page() -> str:
    """Text of the page: the help of every verb and of what stands below it."""
    lines = ["# Command line", "", "`heddle VERB …`; every verb has `--help`. Exit codes: 0 done, 1 failed, 2 wrong use. With `--json`",
             "a verb prints one JSON object and nothing else: `command`, `config` and `rows`.", ""]
    for verb in VERBS:
        lines += _verb(_subparsers(parser_of(verb))[verb], 2)
    return "\n".join(lines)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def _verb(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield f"{'#' * level} {parser.prog}"
    yield ""
    yield "```text"
    yield _help(parser)
    yield "```"
    yield ""
    for below in _subparsers(parser).values():
        yield from _verb(below, level + 1)


def _help(parser: argparse.ArgumentParser) -> str:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "110"
    try:
        return parser.format_help().rstrip()
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
