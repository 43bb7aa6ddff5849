"""Bounds of sparse products, computed by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from heddle import load_config
from heddle_sim.sparse import Compressed, compress
from heddle_sim.sparse.bound import ProductBound, product_bound, resident_bound, sampled_bound

BASE = load_config("base")


def uniform(rows, columns, length, dtype=np.int8):
    """Each row has ``length`` elements, in the first columns."""
    return compress("a", (np.arange(columns)[None] < np.full(rows, length)[:, None]).astype(dtype))


def test_by_hand():
    """64 x 100 with 16 non-zeros a row, N = 128, on 256 multipliers and a bus of 32 bytes: B 16 rows of 128 bytes, C 64 rows of 512, A 3
    bytes an element and 65 pointers."""
    bound = product_bound(BASE, uniform(64, 100, 16), 128)
    assert bound.compute == 64 * 16 * 128 / 256 == 512
    assert bound.first == 128 + 16 * 128 / 32 == 192
    assert bound.beside == {"C": 64 * 512 / 32, "A": (1024 * 3 + 65 * 4) / 32}
    assert bound.cycles == 192 + 1024 and bound.share == 512 / 1216 and bound.bound_by == "C"


def test_long_rows_are_bound_by_the_multipliers():
    bound = product_bound(BASE, uniform(64, 100, 64), 128)
    assert (bound.compute, bound.first, bound.bound_by) == (2048, 128 + 256, "multipliers")
    assert bound.share == 2048 / (384 + 2048)


def test_few_columns_are_bound_by_the_elements():
    """N = 16 multiplies 16 non-zeros a cycle, which are 48 bytes: more than the bus has."""
    bound = product_bound(BASE, uniform(512, 512, 100), 16)
    assert bound.beside["A"] / bound.compute == pytest.approx(48 / 32, rel=0.02) and bound.bound_by == "A"
    assert product_bound(BASE, uniform(512, 512, 100), 32).bound_by == "multipliers"


def test_rows_that_meet_no_element_are_not_fetched():
    a = np.zeros((8, 1000), np.int8)
    a[:, [3, 999]] = 1
    assert product_bound(BASE, compress("a", a), 64).first == 128 + 2 * 64 / 32
    assert product_bound(BASE, compress("a", a), 64, start=0).first == 4


def test_weights_of_512():
    """The uniform 512 x 512 matrices of 70, 80, 90 and 95 % zeros, N = 128: which share the memory leaves."""
    shares = []
    for sparsity in (70, 80, 90, 95):
        count = round(512 * 512 * (100 - sparsity) / 100)
        row = np.arange(512)
        pointers = np.append(row * count // 512, count)
        indices = np.arange(count) % 512
        a = Compressed(pointers, indices, np.ones(count, np.int8), (512, 512))
        shares.append((product_bound(BASE, a, 128).share, resident_bound(BASE, a, 128).share))
    assert [round(share, 3) for share, _ in shares] == [0.948, 0.923, 0.858, 0.632]
    assert [share for _, share in shares] == [1, 1, 1, 1]


def test_resident_by_hand():
    """A row of C leaves the lanes in 4 cycles: rows of 6 non-zeros take 3 cycles, rows of 16 take 8."""
    bound = resident_bound(BASE, uniform(64, 100, 6), 128)
    assert (bound.compute, bound.cycles, bound.share, bound.bound_by) == (192, 256, 0.75, "C")
    assert resident_bound(BASE, uniform(64, 100, 16), 128).share == 1
    assert resident_bound(BASE, uniform(64, 100, 6), 128, start=64).share == 192 / 320
    assert resident_bound(BASE, uniform(64, 100, 6), 129).cycles == 64 * 5
    assert resident_bound(BASE, uniform(64, 100, 6), 1).cycles == 64


def test_types_and_configurations():
    """Elements of two bytes take the steps that the device says; B may have another type than A; several cores have a bus each."""
    a = uniform(64, 100, 16, np.int16)
    wide = product_bound(BASE, a, 128)
    assert wide.compute == 1024 * 128 / BASE.peak_macs(2) and wide.first == 128 + 16 * 256 / 32
    assert wide.beside["A"] == (1024 * 4 + 260) / 32
    assert product_bound(BASE, a, 128, b_bytes=1).first == 192
    assert product_bound(BASE, uniform(64, 100, 16), 128, b_bytes=2).compute == wide.compute
    tiny, quad, large = map(load_config, ("tiny", "quad", "large"))
    a = uniform(64, 100, 16)
    assert product_bound(tiny, a, 128).compute == 1024 * 128 / 32 and product_bound(tiny, a, 128).beside["C"] == 64 * 512 / 8
    assert product_bound(quad, a, 128).compute == 128 and product_bound(quad, a, 128).first == 128 + 16
    assert resident_bound(quad, a, 128).cycles == 128 and product_bound(large, a, 128).beside["C"] == 512


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (5, 5)])
def test_nothing_to_multiply(shape):
    a = compress("a", np.zeros(shape, np.int8))
    for bound in (product_bound(BASE, a, 128), resident_bound(BASE, a, 128), product_bound(BASE, a, 0, start=0)):
        assert bound.share == 0 and bound.compute == 0
    assert ProductBound(8).cycles == 8 and ProductBound(8).share == 1


def test_the_collection(collection, say):
    """Mean bounds at N = 128 over the files with at least 16 non-zeros a row, and over all."""
    long = [matrix for matrix in collection.values() if matrix.lengths.mean() >= 16]
    means = [float(np.mean([bound(BASE, matrix, 128).share for matrix in which]))
             for bound in (product_bound, resident_bound) for which in (long, collection.values())]
    if len(collection) == 90:
        assert len(long) == 44 and [round(mean, 3) for mean in means] == [0.697, 0.431, 1.0, 0.851]
    say(f"{len(collection)} matrices, {len(long)} with long rows: bounds {', '.join(f'{mean:.3f}' for mean in means)}")


@pytest.mark.parametrize("call, kind, says", [
    (lambda a: product_bound(BASE, a, -1), ValueError, "columns must be from 0 to 2147483647, not -1"),
    (lambda a: resident_bound(BASE, a, 1.5), TypeError, "columns must be an integer, not 1.5"),
    (lambda a: product_bound(BASE, a, 1, b_bytes=4), ValueError, "b_bytes must be from 1 to 2, not 4"),
    (lambda a: product_bound(SimpleNamespace(cores=1, axi_bytes=32, peak_macs=lambda size: 1), a, 1, start=-1), ValueError,
     "start must be from 0 to 2147483647, not -1"),
])
def test_wrong_use(call, kind, says):
    with pytest.raises(kind) as error:
        call(uniform(2, 2, 1))
    assert str(error.value) == says


def test_sampled_product():
    """Columns of B that are met, then the largest of products, sums, and rows of A with the mask."""
    mask = compress("mask", np.triu(np.ones((8, 16), np.int8), 8))       # rows of 8 to 1 elements, columns 8 to 15
    bound = sampled_bound(BASE, mask, 512)
    assert bound.compute == 36 * 512 / 256 and bound.first == 128 + 8 * 512 / 32
    assert bound.beside == {"sums": 36 * 4 / 32, "A and mask": (8 * 512 + 36 * 3 + 9 * 4) / 32} and bound.bound_by == "A and mask"
    assert sampled_bound(BASE, mask, 512, pattern=True).beside["A and mask"] == (8 * 512 + 36 * 2 + 9 * 4) / 32
