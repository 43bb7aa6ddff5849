"""Handwritten digits of scikit-learn, which is an extra: only the demo needs it."""

from typing import NamedTuple

import numpy as np
from heddle.errors import HeddleError

__all__ = ["SEED", "DigitImages", "digit_images", "require_scikit_learn"]

SEED = 0
TEST_SHARE = 0.25


class DigitImages(NamedTuple):
    """Images [count, 8 rows, 8 pixels] of values 0 to 1, and their digits."""

    train: np.ndarray
    test: np.ndarray
    train_labels: np.ndarray
    test_labels: np.ndarray


def require_scikit_learn() -> None:
    """Raises ``HeddleError`` with what to install where scikit-learn is missing."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise HeddleError("the demo needs scikit-learn: run make demo, or install the extra: pip install -e '.[demo]'") from None


def digit_images() -> DigitImages:
    """The 1,797 images, a quarter of each digit for tests; the same split every time. Raises ``HeddleError`` without scikit-learn."""
    require_scikit_learn()
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    return DigitImages(*train_test_split(digits.images / 16, digits.target, test_size=TEST_SHARE, random_state=SEED,
                                         stratify=digits.target))
