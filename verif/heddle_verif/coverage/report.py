"""Report of functional coverage: bins and crosses that were hit, holes, exclusions; as text and as a page."""

import itertools

__all__ = ["page", "problems", "summary", "text"]

SHOWN_HOLES = 12        # of a coverpoint or cross; the rest is counted


def summary(tallies):
    """Covered, total and excluded bins, and the same of combinations of crosses, over tallies."""
    def of(kind):
        chosen = [tally for tally in tallies if tally.cross == kind]
        return [sum(values) for values in zip((0, 0, 0), *((tally.covered, tally.total, len(tally.excluded)) for tally in chosen))]
    return of(False) + of(True)


def problems(groups, samples):
    """Lines about holes and about exclusions that were sampled after all."""
    lines = []
    for name, group in groups.items():
        for tally in group.tallies(samples[name]):
            lines += [f"{name}: {tally.name}: {_cell(cell)} was not sampled" for cell in tally.holes] + _refuted(name, tally)
    return lines


def _refuted(name, tally):
    return [f"{name}: {tally.name}: {_cell(cell)} was sampled although excluded: {tally.excluded[cell]}" for cell in tally.refuted]


def _cell(cell):
    return " × ".join(cell)


def _holes(tally):
    """The first holes of a tally on a line, and how many more there are."""
    cells = [_cell(cell) for cell in tally.holes[:SHOWN_HOLES]]
    more = len(tally.holes) - len(cells)
    return "; ".join(cells) + (f"; and {more} more" if more else "")


def _rows(groups, samples):
    for name, group in groups.items():
        yield [name, *summary(group.tallies(samples[name]))]


def text(groups, samples):
    """A table with a row a group, and the holes."""
    head = ["group", "bins", "of", "excluded", "crosses", "of", "excluded"]
    rows = [[str(value) for value in row] for row in _rows(groups, samples)]
    total = [str(sum(int(row[place]) for row in rows)) for place in range(1, len(head))]
    table = [head, *rows, ["all", *total]]
    widths = [max(len(row[place]) for row in table) for place in range(len(head))]
    lines = ["  ".join([row[0].ljust(widths[0]), *(value.rjust(width) for value, width in zip(row[1:], widths[1:]))]) for row in table]
    for name, group in groups.items():
        for tally in group.tallies(samples[name]):
            if tally.holes:
                lines.append(f"{name}: {tally.name}: {len(tally.holes)} of {tally.total} not sampled: {_holes(tally)}")
            lines += _refuted(name, tally)
    return "\n".join(lines)


def page(groups, samples, runs):
    """The page ``docs/coverage.md``; ``runs`` are the notes of the files that were merged."""
    lines = ["# Functional coverage", "",
             "What benches and devices met of what the units can do. The page is generated: "
             "`python -m heddle_verif.coverage report --markdown docs/coverage.md`.", "",
             "Bins and crosses are declared in `verif/heddle_verif/coverage/`, a file a unit. They are closed: a value without a bin is an "
             "error. A combination is hit, a hole, or excluded with a reason. Totals are without what is excluded.", "", "## Runs", "",
             "Only these are in the page, with the number of tests of each file.", ""]
    lines += list(itertools.chain.from_iterable(_run_lines(run) for run in runs))
    lines += ["", "## Units", "", "| Group | Bins | Excluded | Combinations of crosses | Excluded |", "|---|---|---|---|---|"]
    total = [0] * 6
    for name, *values in _rows(groups, samples):
        lines.append("| `{}` | {} of {} | {} | {} of {} | {} |".format(name, *values))
        total = [one + other for one, other in zip(total, values)]
    lines.append("| all | {} of {} | {} | {} of {} | {} |".format(*total))
    for name, group in groups.items():
        lines += ["", f"## `{name}`", "", group.title, ""]
        lines += ["| Coverpoint or cross | Hit | Holes |", "|---|---|---|"]
        lines += [f"| {tally.name} | {tally.covered} of {tally.total} | {_holes(tally)} |" for tally in group.tallies(samples[name])
                  if tally.total or tally.holes]
        refuted = [line for tally in group.tallies(samples[name]) for line in _refuted(name, tally)]
        lines += ["", "Sampled although excluded:", "", *(f"- {line}" for line in refuted)] if refuted else []
        if group.exclude:
            lines += ["", "Excluded:", ""]
            lines += [f"- {exclusion}: {exclusion.reason}." for exclusion in group.exclude]
    return "\n".join(lines) + "\n"


def _run_lines(run):
    tests = run.get("tests", {})
    failed = f", {run['failed']} failed" if run.get("failed") else ""
    yield f"- `{run.get('run', 'samples')}`: {sum(tests.values())} tests{failed}."
    yield from (f"  - `{path}`: {count}" for path, count in tests.items())
