"""Data of others that are not part of the repository, and lie in a folder beside it."""

import os
from pathlib import Path

__all__ = ["data_folder"]

_REPOSITORY = Path(__file__).resolve().parents[2]


def data_folder(variable: str, name: str) -> Path:
    """Folder that an environment ``variable`` names, or else ``shared/NAME`` beside the repository or beside a folder that it is in.

    It need not be there.
    """
    if named := os.environ.get(variable):
        return Path(named)
    places = [parent / "shared" / name for parent in _REPOSITORY.parents]
    return next((place for place in places if place.is_dir()), places[0])
