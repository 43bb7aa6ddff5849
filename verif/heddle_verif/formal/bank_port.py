"""Ports of shared memory: nothing lost or doubled, order, ready from a register, and the most cycles that a request waits."""

from dataclasses import replace

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.constants import BANKS
from heddle.memory.bank_port import BankPort
from heddle.memory.shared_memory import SharedMemory
from heddle.parameters.memory import MemoryParameters

from .contract import any_stream

__all__ = ["BankPortSpec", "SharedMemorySpec"]

SHAPE = data.StructLayout({"bank": BANKS, "row": 2})


class BankPortSpec(Component):
    """A request is shown to the arbiters from the cycle of its transfer on, unchanged, and each of its banks until that bank grants once.

    The next one follows; ``i.ready`` is the value of a register. Environment: the stream keeps to the rules, a request has a bank; banks
    grant as they please.
    """

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = BankPort(SHAPE)
        any_stream(m, dut.i, "i")
        m.d.comb += [Assume(dut.i.payload.bank.any()), dut.grant.eq(AnySeq(BANKS))]
        # The request that is inside, its banks that have not granted, and how often one was refused.
        inside, left, refusals = Signal(SHAPE, reset_less=True), Signal(BANKS), Signal(2)
        banks, granted, last = Signal(BANKS), Signal(BANKS), Signal()
        fresh = dut.i.valid & ~left.any()
        current = Mux(left.any(), inside.as_value(), dut.i.payload.as_value())
        m.d.comb += [
            banks.eq(Mux(fresh, dut.i.payload.bank, left)),
            Assert(dut.i.ready == ~left.any()), Assert(dut.request == banks), Assert(~banks.any() | (dut.held.as_value() == current)),
            Assert(dut.granted == granted), Assert(dut.last == last), Cover(last & (refusals == 2)), Cover(last & fresh & (refusals == 0)),
        ]
        m.d.sync += [
            left.eq(banks & ~dut.grant), granted.eq(banks & dut.grant), last.eq(banks.any() & ~(banks & ~dut.grant).any()),
            refusals.eq(Mux(fresh, 0, refusals) + ((banks & ~dut.grant).any() & (refusals != 3))),
        ]
        with m.If(fresh):
            m.d.sync += inside.eq(dut.i.payload)
        return m


class SharedMemorySpec(Component):
    """Every request of shared memory is answered once: a word of each of its banks, the last one marked, or one acknowledgement.

    The next request of the port is accepted from that cycle on, not before, so that answers have the order of the requests. All banks of
    a request at port n, readers first, have granted at most ``patience`` + n cycles after its transfer. At port 0 it is one cycle for
    each other port.

    With ``contents`` instead a bit of a word anywhere, and a read that is transferred when no write of that bit is without acknowledgement.
    If it is answered before the next write is transferred, it finds what the last one wrote. Environment: streams keep to the rules, a
    request has a bank.
    """

    def __init__(self, patience, shared_writes, readers=2, writers=1, contents=False):
        self._contents = contents
        self._cfg = replace(MemoryParameters.of(load_config("tiny")), shared_memory_kib=1, shared_writes=shared_writes,
                            bank_patience=patience)
        self._readers, self._writers = readers, writers
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = SharedMemory(self._cfg, self._readers, self._writers)
        answered = (lambda *arguments: None) if self._contents else self._answered
        for number, port in enumerate([*dut.read, *dut.write]):
            any_stream(m, port.request, f"request_{number}")
            banks = port.request.payload.bank
            m.d.comb += Assume(banks.any())
            # Cycles from the transfer to the last grant.
            most = self._cfg.bank_patience + number if number else self._readers + self._writers - 1
            if number < self._readers:
                answer = Mux(port.answer.valid, port.answer.payload.bank, 0)
                m.d.comb += Assert(port.answer.valid == answer.any())
                answered(m, number, port.request, answer, Mux(port.answer.valid, port.answer.payload.last, 0), most)
            else:
                if self._cfg.shared_writes == 1:
                    m.d.comb += Assume((banks & (banks - 1)) == 0)
                answered(m, number, port.request, port.written, port.written, most)
        if self._contents:
            self._bit(m, dut)
        return m

    def _answered(self, m, number, request, answer, last, most):
        """Answers of a port: ``answer`` are banks, or 1 for all of a write."""
        left = Signal(len(answer), name=f"left_{number}")               # what has not come
        age = Signal(range(most + 3), name=f"age_{number}")             # cycles since the transfer
        remains, whole = left & ~answer, request.payload.bank if len(answer) == BANKS else 1
        accepted = request.valid & request.ready
        m.d.comb += [
            Assert((answer & ~left) == 0), Assert(last == (answer.any() & ~remains.any())), Assert(request.ready == ~remains.any()),
            Assert(~left.any() | (age <= most + 1)),
            Cover(last & (age == most + 1)), Cover(last & (age == 1) & accepted),
        ]
        m.d.sync += [left.eq(Mux(accepted, whole, remains)), age.eq(Mux(accepted, 1, age + (age != most + 2)))]

    def _bit(self, m, dut):
        """Bit 0 of any word, as the ports write and read it."""
        bank, row, known, value = Signal(3), Signal(self._cfg.row_bits), Signal(), Signal()     # the last write is in memory; what it wrote
        m.d.comb += [bank.eq(AnyConst(len(bank))), row.eq(AnyConst(len(row)))]
        begins, waits, mixed, now = Signal(len(dut.write)), Signal(len(dut.write)), Signal(), Signal(len(dut.write))
        written = Signal(len(dut.write))
        for number, port in enumerate(dut.write):
            request = port.request.payload
            line = bank if len(request.row) == BANKS else 0
            hits = request.bank.bit_select(bank, 1) & (request.row[line] == row) & request.mask[line][0]
            m.d.comb += [
                begins[number].eq(port.request.valid & port.request.ready & hits), written[number].eq(waits[number] & port.written),
            ]
            with m.If(begins[number]):
                m.d.sync += now[number].eq(request.data[line][0])
        left = waits & ~written
        settled = written.any() & ~left.any() & ~mixed
        found, sure = Signal(), Signal()        # in this cycle
        m.d.comb += [sure.eq((known | settled) & ~begins.any()), found.eq(Mux(settled, (written & now).any(), value))]
        m.d.sync += [
            waits.eq(left | begins), known.eq(sure), value.eq(found),
            mixed.eq((left | begins).any() & (mixed & left.any() | begins.any() & left.any() | ((begins & (begins - 1)) != 0))),
        ]
        for number, port in enumerate(dut.read):
            request, answer = port.request.payload, port.answer
            watched, expected = Signal(name=f"watched_{number}"), Signal(name=f"expected_{number}")
            comes = watched & answer.valid & answer.payload.bank.bit_select(bank, 1)
            with m.If(port.request.valid & port.request.ready):
                m.d.sync += [watched.eq(sure & request.bank.bit_select(bank, 1) & (request.row[bank] == row)), expected.eq(found)]
            with m.Elif(begins.any() | comes):
                m.d.sync += watched.eq(0)
            m.d.comb += [Assert(~comes | (answer.payload.data[bank][0] == expected)), Cover(comes & expected)]
