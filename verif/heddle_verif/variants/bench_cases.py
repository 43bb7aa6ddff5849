"""Cases of a bench for pytest: a part of it in ``make test``, the whole of it at night."""

import pytest

__all__ = ["bench_cases", "half_of"]


def bench_cases(part, first, *others, rare=()):
    """Parametrization of a test by the name of a configuration and ``test_filter`` of ``run_bench``.

    Parameters
    ----------
    part : str
        Regular expression of the tests that run on the first configuration in ``make test`` (mark ``short``).
    first, others : str
        Names of the configurations on which the whole bench runs (filter None, mark ``variant``).
    rare : tuple of str
        Those of ``others`` that presets have much alike, for the soak only.
    """
    return pytest.mark.parametrize("name, test_filter", [
        pytest.param(first, part, id=f"{first}-part", marks=pytest.mark.short),
        *(pytest.param(name, None, id=name, marks=[pytest.mark.variant, *[pytest.mark.soak] * (name in rare)])
          for name in (first, *others))])


def half_of(test_filter):
    """Parameters of a bench: half of the random rounds where ``test_filter`` is a part, in ``make test``; all of them where it is None."""
    return {"fewer": 2} if test_filter else {}
