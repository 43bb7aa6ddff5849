"""Folders of build results, keyed by content: what was built once is never built again."""

import hashlib
import json
import shutil
from contextlib import contextmanager

from filelock import FileLock

from .device.build import build_directory

__all__ = ["build_directory", "cached_build", "content_key"]

STAMP = "complete.json"


def content_key(*parts):
    """16 hexadecimal digits that depend on the ``str`` of every part."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


@contextmanager
def _locked(directory):
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{directory}.lock"):
        yield


def cached_build(unit, name, key, build, about=None):
    """Folder ``build/<unit>/<name>-<key>``, filled by ``build(folder)`` unless an earlier call completed it.

    One process builds, others wait for it. The stamp is written last, so an interrupted build starts afresh.

    Parameters
    ----------
    unit, name, key : str
        Folder names; ``key`` must change with everything that the result depends on.
    build : callable
        Gets the empty folder; an exception leaves it incomplete.
    about : dict or None
        Kept in the stamp for the reader.
    """
    directory = build_directory() / unit / f"{name}-{key}"
    if (directory / STAMP).is_file():
        return directory
    with _locked(directory):
        if not (directory / STAMP).is_file():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            build(directory)
            (directory / STAMP).write_text(json.dumps({"key": key} | (about or {})) + "\n")
    return directory
