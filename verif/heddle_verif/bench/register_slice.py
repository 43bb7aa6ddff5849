"""Bench of ``RegisterSlice`` in every mode with registers: ``ready``, ``valid`` and ``payload`` of every cycle against a list of items."""

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge
from heddle.lib.register_slice import RegisterSlice, SliceMode
from heddle_sim.toolchain.cocotb_process import bench_parameters

from heddle_verif.fixture import Bench

BITS, CYCLES = 8, 3000


def make_unit(mode, clears):
    """The design under test; ``mode`` is the value of a ``SliceMode``."""
    return RegisterSlice(BITS, SliceMode(mode), clears=clears)


class Model:
    """The items in a slice; of ``REVERSE`` whether the item at ``i`` was taken in the cycle before."""

    def __init__(self, mode):
        self.mode, self.items, self.taken = mode, [], False

    def shown(self, valid, payload, ready):
        """``i.ready``, ``o.valid`` and ``o.payload`` (None: void) in a cycle with these inputs."""
        if self.mode is SliceMode.REVERSE:
            offers = valid and not self.taken
            return self.taken, offers, payload if offers else None
        is_open = len(self.items) < self.mode.capacity or (self.mode is SliceMode.FORWARD and ready)
        return is_open, bool(self.items), self.items[0] if self.items else None

    def step(self, enters, leaves, clear):
        """The clock edge: ``enters`` is the item that ``i`` transfers or None, ``leaves`` whether ``o`` transfers one."""
        if self.mode is SliceMode.REVERSE:
            self.taken = leaves and not clear
        else:
            del self.items[:leaves]
            self.items += [] if enters is None else [enters]
            if clear:
                self.items.clear()


@cocotb.test(timeout_time=200, timeout_unit="us")
@cocotb.parametrize(offers=[1.0, 0.4], takes=[1.0, 0.4], clears=[0.0, 0.05])
async def every_cycle(dut, offers, takes, clears):
    """An item that is not accepted stays, unless the slice is cleared."""
    parameters = bench_parameters()
    mode = SliceMode(parameters["mode"])
    bench = Bench(dut, make_unit(**parameters), idle_limit=None, checked=not parameters["clears"])
    await bench.start()
    rng, model, waits, sent, gaps = bench.rng, Model(mode), None, 0, set()
    last, held = None, 0
    for cycle in range(CYCLES):
        payload = waits if waits is not None else int(rng.integers(1 << BITS))
        valid, ready = waits is not None or bool(rng.random() < offers), bool(rng.random() < takes)
        clear = bool(parameters["clears"] and rng.random() < clears)
        dut.i__valid.value, dut.i__payload.value, dut.o__ready.value = int(valid), payload, int(ready)
        if parameters["clears"]:
            dut.clear.value = int(clear)
        await ReadOnly()
        expected = model.shown(valid, payload, ready)
        found = bool(dut.i__ready.value), bool(dut.o__valid.value), int(dut.o__payload.value) if expected[1] else None
        assert found == expected, f"cycle {cycle}: {found}, not {expected}"
        enters, leaves = payload if valid and found[0] else None, found[1] and ready
        waits = payload if valid and enters is None and not clear else None
        held = max(held, len(model.items))
        if leaves:
            gaps.add(cycle - last if last is not None else None)
            last, sent = cycle, sent + 1
        if clear:
            last = None         # what comes behind it does not wait
        model.step(enters, leaves, clear)
        await RisingEdge(dut.clk)
    assert sent > CYCLES * offers * takes / 4
    assert min(gaps - {None}) == mode.interval and held == mode.capacity - (mode is SliceMode.FULL and takes == 1)
    bench.finish()
