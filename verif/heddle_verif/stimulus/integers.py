"""Random integers of a type, compared by numpy."""

import numpy as np

__all__ = ["check_equal", "random_integers"]


def random_integers(rng, kind, shape=None):
    """All values of an integer type."""
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)


def check_equal(found, expected):
    """Type, shape and elements are equal."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, (found.dtype, found.shape)
    wrong = np.count_nonzero(found != expected)
    assert not wrong, f"{wrong} of {expected.size} elements are wrong"
