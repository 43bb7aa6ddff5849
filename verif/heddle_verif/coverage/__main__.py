"""``python -m heddle_verif.coverage report``: merge the coverage of runs and print it."""

import argparse
import sys
from pathlib import Path

from heddle.errors import HeddleError, UsageError
from heddle_sim.toolchain.build_cache import build_directory

from . import GROUPS
from .report import page, problems, text
from .storage import merged, read

__all__ = ["main"]


def _files(places):
    """Files of samples in folders, or the files themselves."""
    found = []
    for place in map(Path, places):
        found += sorted(place.glob("*.json")) if place.is_dir() else [place]
    return found


def _readable(files):
    """Those of the last runs that were made with the present declarations; the others are named."""
    kept = []
    for path in files:
        try:
            read(path, GROUPS)
            kept.append(path)
        except UsageError as error:
            print(f"coverage: left out: {error}", file=sys.stderr)
    return kept


def main(arguments=None):
    """The command line; returns the exit status: 0, 1 with ``--check`` and a hole, 2 where there is nothing to report."""
    parser = argparse.ArgumentParser(prog="python -m heddle_verif.coverage", description="Functional coverage of benches and devices.")
    report = parser.add_subparsers(dest="command", required=True).add_parser("report", help="merge runs and print what they covered")
    report.add_argument("places", nargs="*", metavar="FOLDER", help="folders or files of samples (default: those of the last runs)")
    report.add_argument("--markdown", metavar="FILE", help="write the page to FILE")
    report.add_argument("--check", action="store_true", help="end with 1 when a bin or combination is neither hit nor excluded")
    options = parser.parse_args(arguments)
    files = _files(options.places) if options.places else _readable(_files([build_directory() / "coverage"]))
    if not files:
        print("coverage: there are no samples; run tests first", file=sys.stderr)
        return 2
    try:
        samples, runs = merged(files, GROUPS)
    except (HeddleError, OSError, ValueError) as error:
        print(f"coverage: {error}", file=sys.stderr)
        return 2
    print(text(GROUPS, samples))
    if options.markdown:
        Path(options.markdown).write_text(page(GROUPS, samples, runs))
    return int(options.check and bool(problems(GROUPS, samples)))


if __name__ == "__main__":
    sys.exit(main())
