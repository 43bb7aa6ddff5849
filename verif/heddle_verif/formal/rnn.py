"""The recurrent engine: turns of its contexts, reads and writes of shared memory."""

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, Cat, Cover, Module, Mux, Signal
from amaranth.lib.wiring import Component
from heddle import load_config
from heddle.constants import BANKS
from heddle.rnn.bank_reader import READ_AHEAD, BankReader
from heddle.rnn.context_arbiter import ContextArbiter
from heddle.rnn.output_writer import UNACKNOWLEDGED, OutputWriter

from .contract import any_stream, require

__all__ = ["BankReaderSpec", "OutputWriterSpec", "ContextArbiterSpec"]


class ContextArbiterSpec(Component):
    """One context at most is chosen, and only one that may be; whenever one is ready there is a choice; a context that stays ready is
    chosen before any other one has ended a step and is chosen again.

    Environment: ready, waiting and expected contexts, and ends of steps, as they please.
    """

    def __init__(self, contexts):
        self.contexts = contexts
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = ContextArbiter(self.contexts)
        for name in ("ready", "waits", "expected", "eager", "take", "ends"):
            m.d.comb += getattr(dut, name).eq(AnySeq(len(getattr(dut, name))))
        one, none = (dut.choice & (dut.choice - 1)) == 0, dut.choice == 0
        m.d.comb += [
            Assume((dut.expected & (dut.expected - 1)) == 0),
            Assert(one), Assert(dut.valid == ~none), Assert(~dut.ready.any() | ((dut.choice & ~dut.ready) == 0)),
            Assert((dut.choice & ~(dut.ready | (dut.waits & dut.expected))) == 0), Assert(~dut.ready.any() | dut.valid),
        ]
        self._fair(m, dut)
        return m

    def _fair(self, m, dut):
        """Any two contexts: the one is ready all the time, the other one ends a step."""
        patient, other = Signal(range(self.contexts)), Signal(range(self.contexts))
        ended = Signal()
        m.d.comb += [
            patient.eq(AnyConst(len(patient))), other.eq(AnyConst(len(other))),
            Assume(patient != other), Assume(patient < self.contexts), Assume(other < self.contexts),
        ]
        taken = dut.take & dut.valid
        ready, is_patient, is_other = (value.bit_select(number, 1) for value, number in
                                       ((dut.ready, patient), (dut.choice, patient), (dut.choice, other)))
        with m.If(taken & is_other & dut.ends.bit_select(other, 1)):
            m.d.sync += ended.eq(1)
        with m.If(~ready | (taken & is_patient)):
            m.d.sync += ended.eq(0)
        m.d.comb += [Assert(~(ended & ready & taken & is_other)), Cover(ended & ready & taken & is_patient)]


class BankReaderSpec(Component):
    """Words of a transfer leave in order, each once, with their places; the last one is marked. No more words are requested than there is
    room for, and a transfer is over when all of them have left.

    Environment: a memory of any latency, whose words hold the number of their bank; transfers, their early end and words that are held as
    they please.
    """

    BITS = 3        # of places and of the number of words; of the number of a word, the bits that say the bank

    def __init__(self):
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = BankReader(load_config("tiny").replace(shared_memory_kib=4), self.BITS, self.BITS)
        transfer, request, answer = dut.transfer, dut.bank.request, dut.bank.answer
        for port in (transfer.begin, transfer.first, transfer.on, transfer.words, transfer.place, dut.stop, dut.o.hold, request.ready,
                     answer.valid, answer.payload.bank):
            m.d.comb += port.eq(AnySeq(len(port)))
        m.d.comb += [word.eq(number) for number, word in enumerate(answer.payload.data)]
        require(m, request, "request")
        accepted, bank = request.valid & request.ready, dut.word[:self.BITS]
        waiting, oldest = Signal(range(READ_AHEAD + 2)), Signal(self.BITS)      # requests without answer, bank of the oldest one
        m.d.comb += [
            Assume(~(transfer.begin & transfer.busy)), Assume(~answer.valid | ((waiting != 0) & (answer.payload.bank == 1 << oldest))),
            Assert(waiting <= READ_AHEAD), Assert(request.payload.bank == 1 << bank), Cover(answer.valid & (waiting == READ_AHEAD)),
        ]
        m.d.sync += [waiting.eq(waiting + accepted - answer.valid), oldest.eq(Mux(waiting == 0, bank, oldest + answer.valid))]
        self._leave(m, dut, bank, waiting)
        return m

    def _leave(self, m, dut, bank, waiting):
        """Words that leave, and the end of a transfer."""
        transfer, o = dut.transfer, dut.o
        number, place, held = Signal(self.BITS), Signal(self.BITS), Signal()
        left, marked, stopped = Signal(), Signal(), Signal()        # in the cycle before
        m.d.sync += [
            held.eq(o.hold), number.eq(number + o.taken), place.eq(place + o.taken),
            left.eq(o.taken), marked.eq(o.last), stopped.eq(dut.stop),
        ]
        with m.If(transfer.begin):
            m.d.sync += place.eq(transfer.place)
            with m.If(~transfer.on):
                m.d.sync += number.eq(transfer.first)
        m.d.comb += [
            Assert(o.taken == (o.valid & ~held)), Assert(~o.valid | ((o.data[:self.BITS] == number) & (o.at == place))),
            Assert(transfer.busy | (number == bank)),
            Assert(~transfer.busy | waiting.any() | o.valid | dut.bank.request.valid | dut.outside),
            Assert(~left | (marked == ~transfer.busy) | stopped), Assert(~(left & marked & transfer.busy)),
            Cover(left & marked & (place == 5)), Cover(dut.outside & o.valid),
        ]


class OutputWriterSpec(Component):
    """An item of two banks is one request for both, or with one bus for writes two requests; one outside of memory is none and a fault.

    No more requests are without acknowledgement than are counted, and ``busy`` says whether one is. Environment: streams keep to the
    rules; acknowledgements come when they please.
    """

    def __init__(self, shared_writes):
        self._cfg = load_config("tiny").replace(threads=16, thread_slots=16, shared_writes=shared_writes, shared_memory_kib=4,
                                                sparse=False)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = OutputWriter(self._cfg)
        request, address, whole = dut.bank.request, dut.i.payload.address, self._cfg.shared_writes != 1
        any_stream(m, dut.i, "i")
        m.d.comb += [request.ready.eq(AnySeq(1)), dut.bank.written.eq(AnySeq(1)), dut.stop.eq(AnySeq(1)), Assume(address[:4] == 0)]
        waits, before = Signal(), Signal(BANKS)     # rules of streams: the banks; rows and data are those of the item, which stays
        m.d.sync += [waits.eq(request.valid & ~request.ready), before.eq(request.payload.bank)]
        m.d.comb += [Assert(~waits | (request.valid & (request.payload.bank == before))), Cover(waits & request.ready)]
        accepted, taken = request.valid & request.ready, dut.i.valid & dut.i.ready
        missing, again = Signal(range(UNACKNOWLEDGED + 2)), Signal()        # without acknowledgement; the first half is accepted
        outside = address > self._cfg.shared_bytes - 32
        m.d.sync += missing.eq(missing + accepted - dut.bank.written)
        m.d.comb += [
            Assume((missing != 0) | ~dut.bank.written), Assert(missing <= UNACKNOWLEDGED), Assert(dut.busy == (missing > dut.bank.written)),
            Assert(taken == (dut.i.valid & (outside | (accepted & (again | whole))))), Assert(~(request.valid & outside)),
            Cover(missing == UNACKNOWLEDGED), Cover(taken & outside),
        ]
        failed, place = Signal(), Signal(len(address), reset_less=True)
        with m.If(taken & outside & ~failed):
            m.d.sync += [failed.eq(1), place.eq(address)]
        with m.If(dut.stop):
            m.d.sync += failed.eq(0)
        m.d.comb += [Assert(dut.fault == failed), Assert(~failed | (dut.fault_value == place))]
        halves = [self._half(m, dut, number) for number in (0, 1)]
        if whole:
            asked = halves[0] | halves[1]
        else:
            m.d.sync += again.eq(again ^ accepted)
            asked = Mux(again, halves[1], halves[0])
        m.d.comb += Assert(~request.valid | (request.payload.bank == asked))
        return m

    def _half(self, m, dut, half):
        """The bank of half an item, one hot; in any bank row and data (eight of the bits) are those of the half that is requested."""
        payload, item = dut.bank.request.payload, dut.i.payload
        word, bank = Signal(3 + self._cfg.row_bits, name=f"word_{half}"), Signal(3, name=f"bank_{half}")
        m.d.comb += [word.eq(item.address[4:] + half), bank.eq(AnyConst(3)), Cover(dut.bank.request.valid & (word[:3] == 0))]
        line = bank if len(payload.row) == BANKS else 0
        with m.If(dut.bank.request.valid & payload.bank.bit_select(bank, 1) & (word[:3] == bank)):
            m.d.comb += [
                Assert(payload.row[line] == word[3:]), Assert(payload.mask[line].all()),
                Assert(payload.data[line][::16] == Cat(item.elements)[128 * half:128 * (half + 1):16]),
            ]
        return (1 << word[:3])[:BANKS]
