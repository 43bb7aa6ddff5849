"""Storage of functional coverage: a file of samples a process, merged into one a run."""

import atexit
import json
import os
import uuid
from collections import Counter
from pathlib import Path

from heddle.errors import UsageError

__all__ = ["FOLDER_VARIABLE", "merged", "read", "save_at_exit", "write", "write_samples"]

FOLDER_VARIABLE = "HEDDLE_COVERAGE"     # folder into which every process writes its samples; nothing is written without it


def write_samples(path, samples, **notes):
    """Write samples, a Counter of combinations for each group name, at once; ``notes`` are kept beside them."""
    groups = {name: [[*key, count] for key, count in sorted(counts.items(), key=str)] for name, counts in samples.items() if counts}
    unfinished = Path(f"{path}.{os.getpid()}")
    unfinished.write_text(json.dumps({**notes, "groups": groups}, indent=0, ensure_ascii=False) + "\n")
    unfinished.replace(path)


def read(path, groups):
    """Samples of a file, a Counter of combinations for each of ``groups`` by name, and its notes.

    ``UsageError`` where the file was written by other declarations.
    """
    stored = json.loads(Path(path).read_text())
    samples = {name: Counter() for name in groups}
    for name, rows in stored.pop("groups").items():
        if name not in groups:
            raise UsageError(f"{path} must be of the declared groups, not of {name!r}; run the tests again")
        for *key, count in rows:
            if len(key) != len(groups[name].points):
                raise UsageError(f"{path} must have samples of {', '.join(groups[name].points)} for {name}; run the tests again")
            samples[name][groups[name].checked(tuple(key))] += count
    return samples, stored


def merged(paths, groups):
    """The sum of the samples of several files, and the list of their notes."""
    total, notes = {name: Counter() for name in groups}, []
    for path in paths:
        samples, note = read(path, groups)
        notes.append(note)
        for name, counts in samples.items():
            total[name].update(counts)
    return total, notes


def write(groups, folder=None):
    """Write what this process has sampled since the last time; the file, or None where there is nothing or no folder."""
    folder = folder or os.environ.get(FOLDER_VARIABLE)
    samples = {name: group.samples for name, group in groups.items() if group.samples}
    if not folder or not samples:
        return None
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    path /= f"{os.getpid()}-{uuid.uuid4().hex}.json"
    write_samples(path, samples)
    for counts in samples.values():
        counts.clear()
    return path


def save_at_exit(groups):
    """Have this process write its samples when it ends."""
    atexit.register(write, groups)
