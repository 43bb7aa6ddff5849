"""Queue, full register slice and link: benches on both simulators, parameter errors."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import data, stream
from heddle.lib.stream import Queue, link
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.bench.stream import make_unit


@pytest.mark.parametrize("depth, registered", [
    pytest.param(None, True, marks=pytest.mark.smoke), (9, True), (5, False),
    *(pytest.param(*case, marks=pytest.mark.nightly) for case in ((2, True), (3, True), (34, True), (2, False)))])
def test_bench(depth, registered, simulator, seed):
    name = f"queue_{depth}" if depth else "slice"
    run_bench(make_unit(depth, registered), bench="heddle_verif.bench.stream", simulator=simulator, seed=seed,
              parameters={"depth": depth, "registered": registered}, name=name if registered else f"{name}_unregistered")


@pytest.mark.parametrize("depth", [1, 0, -3, 2.0, None])
def test_depth_message(depth):
    with pytest.raises(ValueError, match="^depth must be an integer of at least 2, not "):
        Queue(8, depth)


def test_depth_message_without_a_register():
    with pytest.raises(ValueError, match="^depth must be at most 32 without a register at the output, not 33"):
        Queue(8, 33, registered=False)


@pytest.mark.parametrize("depth, registered, latency", [(2, True, 1), (3, True, 2), (33, True, 2), (34, True, 3), (32, False, 1)])
def test_latency(depth, registered, latency):
    assert Queue(8, depth, registered).latency == latency


LAYOUT = data.StructLayout({"last": 1, "value": 7})


@pytest.mark.parametrize("shape", [8, data.StructLayout({"first": 1, "value": 7}), data.ArrayLayout(1, 8)])
def test_link_refuses_other_layouts(shape):
    with pytest.raises(TypeError, match="^payload of the source must have the shape of the sink, "):
        link(Module(), stream.Signature(shape).create(), stream.Signature(LAYOUT).create())


def test_link_accepts_equal_layouts():
    class Same(data.Struct):
        last: 1
        value: 7

    link(Module(), stream.Signature(Same).create(), stream.Signature(LAYOUT).create())
    link(Module(), stream.Signature(range(8)).create(), stream.Signature(3).create())


def test_link_refuses_ends_that_cannot_wait():
    with pytest.raises(TypeError, match="^sink must be always ready"):
        link(Module(), stream.Signature(8, always_ready=True).create(), stream.Signature(8).create())
    with pytest.raises(TypeError, match="^source must be always valid"):
        link(Module(), stream.Signature(8).create(), stream.Signature(8, always_valid=True).create())
    link(Module(), stream.Signature(8).create(), stream.Signature(8, always_ready=True).create())
