"""Folder of networks of others, as those of MLPerf Tiny."""

from pathlib import Path

from ..shared_data import data_folder

__all__ = ["FOLDER_VARIABLE", "models_folder"]

FOLDER_VARIABLE = "HEDDLE_MODELS"


def models_folder() -> Path:
    """That of ``HEDDLE_MODELS``, or ``shared/models`` beside the repository; it need not be there."""
    return data_folder(FOLDER_VARIABLE, "models")
