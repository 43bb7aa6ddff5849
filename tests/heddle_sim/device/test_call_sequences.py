"""Calls of all kinds one after the other on one device: what one leaves in registers and memories changes nothing for the next."""

import numpy as np
import pytest
import scipy.sparse as sp
from heddle_sim import Device, Requantise
from heddle_sim.golden.convolution import convolution

HALF = Requantise(1 << 30, 38)


def numbers(rng, *shape):
    return rng.integers(-20, 20, shape).astype(np.int8)


def product(device, rng):
    a, b = numbers(rng, 9, 21), numbers(rng, 21, 10)
    return device.matmul(a, b)[0], a.astype(np.int32) @ b


def layer(device, rng):
    x, w, bias = numbers(rng, 5, 12), numbers(rng, 12, 7), rng.integers(-99, 99, 7).astype(np.int32)
    return device.linear(x, w, bias)[0], x.astype(np.int32) @ w + bias


def row(device, rng):
    """By the kernel for one row where there is an output stage."""
    x, w, bias = numbers(rng, 1, 40), numbers(rng, 40, 37), rng.integers(-99, 99, 37).astype(np.int32)
    return device.linear(x, w, bias, HALF)[0], HALF.apply(x.astype(np.int32) @ w + bias)


def image(device, rng, method, channels, group):
    x, w = numbers(rng, 1, 5, 4, channels), numbers(rng, channels, channels // group, 3, 3)
    y, _ = device.conv(x, w, pads=1, group=group, layout="NHWC", method=method)
    return y, convolution(x, np.moveaxis(w, 1, -1), ((1, 1), (1, 1)), (1, 1), (1, 1), group)


def compiled(device, rng):
    return image(device, rng, "compiled", 4, 1)


def im2col(device, rng):
    return image(device, rng, "im2col", 16, 1)


def depthwise(device, rng):
    return image(device, rng, "depthwise", 16, 16)


def scaled_depthwise(device, rng):
    x, w, bias = numbers(rng, 1, 4, 4, 16), numbers(rng, 16, 1, 2, 2), rng.integers(-99, 99, 16).astype(np.int32)
    y, _ = device.conv(x, w, bias, group=16, layout="NHWC", method="depthwise", requantise=HALF)
    return y, HALF.apply(convolution(x, np.moveaxis(w, 1, -1), ((0, 0), (0, 0)), (1, 1), (1, 1), 16) + bias)


def sparse(device, rng):
    a, b = numbers(rng, 11, 9) * (rng.random((11, 9)) < 0.3), numbers(rng, 9, 13)
    return device.spmm(sp.csr_array(a), b)[0], a.astype(np.int32) @ b


def sampled(device, rng):
    a, b = numbers(rng, 6, 19), numbers(rng, 19, 8)
    mask = sp.csr_array((rng.random((6, 8)) < 0.4).astype(np.int8))
    return device.sddmm(a, b, mask)[0].toarray(), (a.astype(np.int32) @ b) * mask.toarray()


def recurrent(device, rng):
    """Beside the functional simulator, whose results the hardware has bit by bit."""
    operands = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((3, 1, 5), (1, 24, 5), (1, 24, 6))]
    with Device(device.cfg, "golden", memory_bytes=1 << 16) as golden:
        return device.lstm(*operands)[0][0], golden.lstm(*operands)[0][0]


def pooled(device, rng):
    x = numbers(rng, 1, 6, 6, 16)
    return device.max_pool(x, 2, strides=2, layout="NHWC")[0], x.reshape(1, 3, 2, 3, 2, 16).max(axis=(2, 4))


KINDS = (product, layer, row, compiled, im2col, depthwise, scaled_depthwise, sparse, sampled, recurrent, pooled)


def every_pair(count, rng):
    """Numbers below ``count`` in an order in which each follows each, itself too: a circle through all pairs."""
    left = {first: list(rng.permutation(count)) for first in range(count)}
    stack, order = [0], []
    while stack:
        if left[stack[-1]]:
            stack.append(int(left[stack[-1]].pop()))
        else:
            order.append(stack.pop())
    return order[::-1]


def check(device, rng):
    before = "nothing"
    for number in every_pair(len(KINDS), rng):
        kind = KINDS[number]
        found, expected = kind(device, rng)
        np.testing.assert_array_equal(found, expected, err_msg=f"{kind.__name__} behind {before}")
        before = kind.__name__


def test_every_call_behind_every_other(seed):
    with Device("tiny", memory_bytes=1 << 18) as device:
        check(device, np.random.default_rng(seed))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["base", "large"])
def test_every_call_of_presets(name, seed):
    with Device(name, memory_bytes=1 << 18) as device:
        check(device, np.random.default_rng(seed))
