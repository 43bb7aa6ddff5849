"""Operations that run in another way because it is faster: products of few rows."""

import numpy as np
import pytest
from heddle_sim import Requantise
from heddle_sim.models.candidates import candidates
from heddle_sim.models.operations import FullyConnected


@pytest.mark.parametrize("rows, methods", [
    (1, ["linear_chain", "conv", "linear"]), (8, ["linear_chain", "conv", "linear"]), (9, ["conv", "linear"]), (32, ["conv", "linear"]),
    (33, ["linear"])])
def test_products_of_few_rows(device, rows, methods):
    """The same bytes by both ways."""
    rng = np.random.default_rng(rows)
    x, w = rng.integers(-128, 128, (rows, 24), np.int8), rng.integers(-128, 128, (10, 24), np.int8)
    spec = Requantise(rng.integers(1 << 29, 1 << 31, 10), 41, zero_point=5)
    found = list(candidates(FullyConnected((rows, 10), w, rng.integers(-500, 500, 10).astype(np.int32), spec)))
    assert [one.method for one in found] == methods
    results = [one.run(device, [x])[0][0] for one in found]
    assert all(np.array_equal(results[0], result) and result.shape == (rows, 10) for result in results)
