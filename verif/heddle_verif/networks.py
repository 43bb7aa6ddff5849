"""Networks of others that are not part of the repository: where they lie, and which of them are there."""

import os
from pathlib import Path

__all__ = ["folder", "networks"]


def folder() -> Path:
    """Of ``HEDDLE_MODELS``, or ``shared/models`` beside the repository or beside its folder."""
    if "HEDDLE_MODELS" in os.environ:
        return Path(os.environ["HEDDLE_MODELS"])
    root = Path(__file__).resolve().parents[2]
    places = [parent / "shared" / "models" for parent in root.parents]
    return next((place for place in places if place.is_dir()), places[0])


def networks(suffix: str) -> list[Path]:
    """Files with a suffix in ``folder``, by name."""
    return sorted(folder().glob(f"*{suffix}"))
