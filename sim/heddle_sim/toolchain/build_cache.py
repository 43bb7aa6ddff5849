"""Folders of build results, keyed by content: what was built once is used until it is damaged."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import heddle
from filelock import FileLock
from heddle.errors import HeddleError

__all__ = ["BuildError", "build_directory", "cached_build", "content_key"]

STAMP = "complete.json"


class BuildError(HeddleError, RuntimeError):
    """A step of the build failed; the message ends with what the tool said."""


def build_directory() -> Path:
    """Where generated files are kept: ``HEDDLE_BUILD``, or ``build/`` of the source tree, or the user's cache."""
    if "HEDDLE_BUILD" in os.environ:
        return Path(os.environ["HEDDLE_BUILD"])
    root = Path(heddle.__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        return root / "build"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "heddle"


def content_key(*parts: object) -> str:
    """16 hexadecimal digits that depend on every part: on bytes as they are, on others by their ``str``."""
    digest = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:16]


def cached_build(unit: str, name: str, key: str, build: Callable[[Path], object], about: dict[str, object] | None = None,
                 results: list[str] | None = None) -> Path:
    """Folder ``build/<unit>/<name>-<key>``, filled by ``build(folder)`` unless it is complete already.

    A folder is complete when its stamp, which is written last, has the hashes of the results that are there. So an interrupted build starts
    afresh, and damaged results are built anew. One process builds, others wait for it. A complete folder is only read.

    Parameters
    ----------
    unit, name, key : str
        Folder names; ``key`` must change with everything that the result depends on.
    build : callable
        Gets the empty folder; an exception leaves it incomplete.
    about : dict or None
        Kept in the stamp for the reader.
    results : list of str or None
        Names of the files that are used later; None: all that lie directly in the folder.

    Raises ``BuildError`` when the folder is not complete and cannot be written.
    """
    directory = build_directory() / unit / f"{name}-{key}"
    if not _complete(directory, results):
        with _locked(directory):
            if not _complete(directory, results):
                with _writing(directory):
                    if directory.exists():
                        shutil.rmtree(directory)
                    directory.mkdir()
                build(directory)
                names = results or sorted(path.name for path in directory.iterdir() if path.is_file())
                hashes = {name: _sha256(directory / name) for name in names}
                (directory / STAMP).write_text(json.dumps({"key": key, "sha256": hashes} | (about or {})) + "\n")
    return directory


def _complete(directory: Path, results: list[str] | None) -> bool:
    """Whether the results are those that the build left."""
    try:
        hashes = json.loads((directory / STAMP).read_text(encoding="utf-8"))["sha256"]
        return hashes.keys() >= set(results or ()) and all(_sha256(directory / name) == expected for name, expected in hashes.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """What cannot be written is a ``BuildError`` in one line."""
    try:
        yield
    except OSError as error:
        found = "damaged" if directory.exists() else "not there"
        raise BuildError(f"HEDDLE_BUILD must be a folder that can be written, not {str(build_directory())!r}: {directory.name} is {found} "
                         f"and cannot be built ({error.strerror or error})") from None


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    lock = FileLock(f"{directory}.lock")
    with _writing(directory):
        directory.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
