"""Networks of others that are not part of the repository: which of them are there."""

from pathlib import Path

from heddle_sim.models.folder import models_folder

__all__ = ["networks"]


def networks(suffix: str) -> list[Path]:
    """Files with a suffix in ``models_folder``, by name."""
    return sorted(models_folder().glob(f"*{suffix}"))
