"""Matrices of published networks: files ``.smtx`` of the deep-learning matrix collection, with values of our own."""

import zlib
from pathlib import Path

import numpy as np
from heddle.errors import UsageError

from ..shared_data import data_folder
from .checks import Naming, check_shape
from .compressed import Compressed

__all__ = ["FOLDER_VARIABLE", "dl_folder", "dl_suite", "read_smtx", "seeded_values"]

FOLDER_VARIABLE = "HEDDLE_DLMC"


def seeded_values(pattern: Compressed, seed: int) -> Compressed:
    """The pattern with values from -128 to 127, none of them 0, int8; the same ones for the same seed."""
    values = np.random.default_rng(seed).integers(-128, 127, pattern.elements, np.int8)
    return pattern.with_data(np.where(values >= 0, values + 1, values).astype(np.int8))


def read_smtx(path: str | Path) -> Compressed:
    """Pattern of a file ``.smtx``, whose elements are 1 (int8).

    Line 1 has ``rows, columns, non-zeros``, line 2 the row pointers, line 3 the column indices. Raises ``ValueError`` for other files.
    """
    path = Path(path)
    try:
        lines = [[int(word) for word in line.replace(",", " ").split()] for line in path.read_text().splitlines()]
    except OSError as error:
        raise UsageError(f"{path} must be a file that can be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path} must have whole numbers only, as files .smtx do") from None
    lines += [[] for _ in range(3 - len(lines))]
    size, pointers, indices = lines[:3]
    if len(size) != 3 or any(lines[3:]):
        raise UsageError(f"{path} must have three lines, the first with rows, columns and non-zeros, as files .smtx do")
    if size[2] != len(indices):
        raise UsageError(f"indices of {path} must be {size[2]}, as its first line says, not {len(indices)}")
    naming = Naming(str(path))
    return Compressed.of_arrays(pointers, indices, np.ones(len(indices), np.int8), check_shape(naming.array("shape"), size[:2]), naming)


def _folder() -> Path:
    return data_folder(FOLDER_VARIABLE, "dlmc")


def dl_folder() -> Path | None:
    """Folder of the collection: that of the environment variable ``HEDDLE_DLMC``, or ``shared/dlmc`` beside the repository; ``None`` where
    there is none."""
    folder = _folder()
    return folder if folder.is_dir() else None


def dl_suite(folder: str | Path | None = None) -> dict[str, Compressed]:
    """All matrices of a folder by name, sorted, with seeded values (``seeded_values``); ``folder``: ``dl_folder`` without it."""
    found = _folder() if folder is None else Path(folder)
    paths = sorted(found.glob("*.smtx"))
    if not paths:
        raise UsageError(f"folder must have files .smtx, not be {found}: {FOLDER_VARIABLE} names another one")
    return {path.stem: seeded_values(read_smtx(path), zlib.crc32(path.stem.encode())) for path in paths}
