"""Suites of sparse matrices, and what a test says that it ran on."""

import pytest
from heddle_sim.sparse.generated import generated_suite
from heddle_sim.sparse.suites import FOLDER_VARIABLE, dl_folder, dl_suite


@pytest.fixture(scope="session")
def generated():
    return generated_suite()


@pytest.fixture(scope="session")
def collection():
    """Matrices of the deep-learning matrix collection; a test that needs them says so where they are not at hand."""
    if dl_folder() is None:
        pytest.skip(f"the matrices of the collection are not at hand: {FOLDER_VARIABLE} names their folder")
    return dl_suite()


@pytest.fixture
def say(record_property):
    """Says at the end of all tests what a test ran on; ``tests/conftest.py`` prints it."""
    return lambda text: record_property("ran", text)
