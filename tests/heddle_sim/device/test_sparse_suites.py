"""Sparse and sampled products of a device with the patterns of pruned networks: the generated dozen, and the whole collection [S4]."""

import numpy as np
import pytest
from heddle_sim.device import Device
from heddle_sim.golden.sparse import sddmm, spmm
from heddle_sim.sparse import DCSR
from heddle_verif.stimulus.sparse_matrices import operand


@pytest.fixture(scope="module")
def device():
    with Device("base", "golden", memory_bytes=1 << 21) as device:
        yield device


def check(device, suite, seed):
    """Each matrix times an array, and as the mask of a product, which is transposed for every other one."""
    rng = np.random.default_rng(seed)
    for number, (name, matrix) in enumerate(suite.items()):
        (m, n), made = matrix.shape, DCSR.of(matrix)
        b = operand(rng, (n, 24))
        np.testing.assert_array_equal(device.spmm(made, b).c, spmm(made, b), err_msg=name)
        left, right, turned = operand(rng, (m, 24)), operand(rng, (n, 24)), bool(number % 2)
        right = right if turned else np.ascontiguousarray(right.T)
        np.testing.assert_array_equal(device.sddmm(left, right, made, turned).d.data, sddmm(left, right, made, turned).data, err_msg=name)


def test_generated_matrices(device, generated, seed):
    assert len(generated) == 12
    check(device, generated, seed)


@pytest.mark.nightly
def test_the_collection(device, collection, say, seed):
    check(device, collection, seed)
    say(f"products with {len(collection)} matrices")
