"""What runs of ``mutate`` found, kept for those that follow: by unit, with the key of what was tried.

``build/mutation.json`` has what runs on this machine found, ``verif/mutation_results.json`` what was stored in the repository, so that a
fresh clone goes on from there. ``docs/mutation.md`` is the table of the latter.
"""

import json
from pathlib import Path

from heddle_sim.toolchain.build_cache import build_directory

from .targets import ROOT

__all__ = ["PAGE", "STORE", "known_result", "page_text", "read_results", "run_results", "store_results", "table_row", "write_results"]

STORE = ROOT / "verif" / "mutation_results.json"
PAGE = ROOT / "docs" / "mutation.md"


def run_results():
    """The file of the runs on this machine."""
    return build_directory() / "mutation.json"


def read_results(path):
    """Results by unit; none where there is no such file, or half of one."""
    try:
        found = json.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def known_result(name, key):
    """What a run on this machine, or else the repository, says of a unit with this key; empty where neither does."""
    return next((found[name] for found in map(read_results, (run_results(), STORE)) if found.get(name, {}).get("key") == key), {})


def write_results(path, results):
    """A file of results by unit, a line a unit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items()) + "\n}\n")


def store_results(results, units):
    """Put results into the repository, in the order of the units that there are, and write the page."""
    kept = read_results(STORE) | {name: {field: value for field, value in result.items() if field != "unchanged"}
                                  for name, result in results.items()}
    write_results(STORE, {name: kept[name] for name in units if name in kept})
    PAGE.write_text(page_text())


def page_text():
    """The page of the results that the repository has."""
    results = read_results(STORE)
    judged, count = (sum(result[field] for result in results.values()) for field in ("run", "count"))
    rows = "\n".join(table_row(name, result) for name, result in results.items())
    survivors = "\n".join(f"- `{name}`: {survivor}" for name, result in results.items() for survivor in result["survivors"])
    return f"""# Mutants that benches notice

<!-- Generated: make mutate, then python -m heddle_verif.mutation.mutate --minutes 0 --store -->

Of {count} mutants of {len(results)} units {judged} are judged. [Verification](verification.md#mutation-of-the-benches) says how.
No test that was run noticed any of the others. Until a further test or a proof judges them, they count against the score.

| Unit | Judged | Noticed | Equivalent | Waived | Survive | Score |
|---|---|---|---|---|---|---|
{rows}

Units whose name ends with `_base` or `_small` are built as that preset builds them. A sample of n mutants without a survivor shows, with
95 % confidence, that more than 1 − 3/n are noticed: 95 % with 60.

## Survivors

{survivors or "None."}
"""


def table_row(name, result):
    """A unit's line of the page."""
    least = "≥ " * (result["run"] < result["count"])
    score = f"{least}{100 * result['score']:.0f} %" if result["run"] else ""
    return (f"| `{name}` | {result['run']} of {result['count']} | {result['killed']} | {result['equivalent']} | {result['waived']} "
            f"| {len(result['survivors'])} | {score} |")
