"""Fetch of B: from operations to words and steps for the PEs."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..datapath.layouts import step_layout
from ..interfaces.layouts import ErrorStream, OffsetReadPort, SharedReadPort, matrix_operation_layout
from ..lib.members import connect_members
from ..lib.onehot import any_of, select_one_hot
from ..lib.stream import Queue
from ..parameters.matrix import MatrixParameters
from .address_generator import AddressGenerator
from .bank_scheduler import BankScheduler
from .broadcast_network import BroadcastNetwork, spread
from .layouts import word_request_layout
from .loop_sequencer import LoopSequencer
from .merge_split import MergeSplit
from .transpose_buffer import TransposeBuffer
from .transpose_fetch import TransposeFetch

__all__ = ["REQUESTS_AHEAD", "BFetch"]

REQUESTS_AHEAD = 2      # requests without their last answer: one a cycle at the least latency of shared memory


class BFetch(Component):
    """Fetch of B: reads the words of B of one operation after the other from shared memory and broadcasts them to the PEs.

    Stages: loop sequencer, merge split, address generator, transpose fetch (with ``transpose``), bank scheduler, banks, selection of the
    words, broadcast network. The PEs hold the words of a step until the step is complete, and take every step at once. So there is no
    queue behind the banks.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(matrix_operation_layout(cfg)))
        Operations.
    stop : In(1)
        Operations end early.
    offset_read : Out(OffsetReadPort(cfg))
        Reads of the offsets of the next operation.
    offset_load : Out(1)
        The next offset of the PEs becomes ``offset``.
    offset : In(32).array(threads)
        Offset of each column.
    pause : In(1)
        In this cycle nothing is requested: a step is left out, now or before, where a bank refused.
    hold : In(1)
        From the next cycle on no bank is requested, and the stages in front of the banks hold.
    bank : Out(SharedReadPort(cfg))
        Reads of shared memory; with one fetch slot never more than one bank.
    step : Out(step_layout(cfg))
        Step for the PEs, in the cycle in which the last of its words is in the register behind its bank.
    word : Out(signed(element_bits)).array(fetch_slots, dot)
        Words of B, one cycle later: bytes extended by their signedness. PE t looks at word t mod ``fetch_slots``. In the second pass the
        bytes of 16-bit elements are swapped; with ``wide_lanes`` every other byte is the whole element.
    take : Out(positions)
        Bit t mod ``positions``: the word of PE t is at ``word``.
    arrival : Out(1)
        Words are in the registers behind the banks.
    pending : Out(1)
        Steps of accepted operations may still come, the one at ``step`` excepted.
    conflict : Out(2)
        Waits for a bank in this cycle: one of a request that was refused in the cycle before, one of words whose bank is read again for
        the same group.
    o_error : Out(ErrorStream())
        MISALIGNED, OUT_OF_RANGE and PRODUCT_RANGE of the address generator.

    *Latency*: 10 cycles from ``i`` to the first ``step``, 13 with several fetch slots, plus the waits for the offsets and the banks.

    *Throughput*: one step a cycle without merges, also across operations. A merged step takes one cycle for every ``fetch_slots`` words,
    and more where a bank has several rows to read.

    *Back-pressure*: ``bank.request.ready``, ``pause`` and ``hold`` hold all stages in front of the banks. ``i.ready`` comes from a
    register. At most ``REQUESTS_AHEAD`` requests are without their last answer.

    *Reset*: all operations are dropped.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(matrix_operation_layout(cfg))),
            "stop": In(1),
            "offset_read": Out(OffsetReadPort(cfg)),
            "offset_load": Out(1),
            "offset": In(32).array(cfg.threads),
            "pause": In(1),
            "hold": In(1),
            "bank": Out(SharedReadPort(cfg)),
            "step": Out(step_layout(cfg)),
            "word": Out(signed(cfg.element_bits)).array(cfg.fetch_slots, cfg.dot),
            "take": Out(cfg.positions),
            "arrival": Out(1),
            "pending": Out(1),
            "conflict": Out(2),
            "o_error": Out(ErrorStream()),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.walk = walk = LoopSequencer(self.cfg)
        m.submodules.groups = groups = MergeSplit(self.cfg)
        m.submodules.address = address = AddressGenerator(self.cfg)
        m.submodules.schedule = schedule = BankScheduler(self.cfg)
        if self.cfg.transpose:
            m.submodules.pieces = pieces = TransposeFetch(self.cfg)
            m.submodules.picker = picker = TransposeBuffer(self.cfg)
            advance = pieces.advance
            m.d.comb += [pieces.i.eq(address.o), schedule.i.eq(pieces.o), pieces.o_ready.eq(schedule.advance)]
            connect(m, pieces.o_pick, picker.i)
        else:
            advance, pieces, picker = schedule.advance, None, None
            m.d.comb += schedule.i.eq(address.o)
        connect(m, flipped(self.i), walk.i)
        connect(m, flipped(self.o_error), address.o_error)
        connect(m, flipped(self.offset_read), walk.offset_read)
        connect_members(m, flipped(self), walk, ("stop",))
        connect_members(m, groups, walk, ("offset_wait",))
        connect_members(m, flipped(self), groups, ("offset_load",))
        m.d.comb += [
            walk.advance.eq(advance & ~groups.hold),
            groups.advance.eq(advance),
            groups.valid.eq(walk.valid),
            groups.i.eq(walk.o),
            address.advance.eq(advance),
            address.valid.eq(groups.o_valid),
            address.i.eq(groups.o),
        ]
        connect_members(m, flipped(self), address, ("offset",))
        m.submodules.requests = requests = Queue(word_request_layout(self.cfg), REQUESTS_AHEAD)
        self._ask(m, schedule, requests)
        on_their_way, ending = self._read(m, requests, picker)
        asked = Signal()
        m.d.comb += asked.eq(schedule.pending | schedule.o.step.step | schedule.o.bank.any() | on_their_way)
        m.d.comb += self.pending.eq(walk.pending | walk.valid | address.pending | asked)
        if self.cfg.transpose:
            m.d.comb += [
                pieces.idle.eq(~(asked | schedule.o.step.last | ending)),
                pieces.picking.eq(picker.busy), pieces.switched.eq(picker.switched),
                self.pending.eq(walk.pending | walk.valid | address.pending | asked | pieces.pending | picker.busy),
            ]
        return m

    def _ask(self, m, schedule, requests):
        """Requests the banks of a round; the round itself waits in ``requests`` for their words."""
        carries, asks, goes, leaves = Signal(), Signal(), Signal(), Signal()
        held = Signal()
        stands = Signal()       # the request was offered before and not taken: there was no step, which a pause asks for
        round_, request = schedule.o, self.bank.request
        m.d.sync += [held.eq(self.hold), stands.eq(request.valid & ~request.ready)]
        last = round_.step.last | (round_.piece.last if self.cfg.transpose else 0)
        m.d.comb += [
            asks.eq(round_.bank.any()),
            carries.eq(asks | round_.step.step | last),
            goes.eq(requests.i.ready & (stands | (~self.pause & ~(held & asks)))),
            request.valid.eq(asks & goes), request.payload.bank.eq(round_.bank),
            leaves.eq(goes & (request.ready | ~asks)),
            requests.i.valid.eq(carries & leaves), requests.i.payload.eq(round_),
            schedule.o_ready.eq(~carries | leaves),
            self.conflict.eq(~request.ready + (schedule.o_ready & ~schedule.advance)),
        ]
        m.d.comb += [row.eq(round_.rows[bank % len(round_.rows)]) for bank, row in enumerate(request.payload.row)]

    def _read(self, m, requests, picker):
        """Selects the words of the oldest request; returns whether data are in flight, and ends of operations."""
        oldest, answer = requests.o.payload, self.bank.answer
        arrived = Signal(BANKS)
        complete = Signal()
        m.d.comb += [
            arrived.eq(Mux(answer.valid, answer.payload.bank, 0)),
            complete.eq(requests.o.valid & ((answer.valid & answer.payload.last) | ~oldest.bank.any())),
            requests.o.ready.eq(complete),
        ]
        stage = Signal(word_request_layout(self.cfg), name="arrived_request")       # with the registers behind the banks
        m.d.sync += [
            stage.eq(oldest),
            *(slot.served.eq(asking.served & (asking.bank & arrived).any()) for slot, asking in zip(stage.slots, oldest.slots)),
            stage.step.step.eq(oldest.step.step & complete), stage.step.last.eq(oldest.step.last & complete),
        ]
        if self.cfg.transpose:
            m.d.sync += stage.piece.last.eq(oldest.piece.last & complete)
        ending = (requests.o.valid & oldest.step.last) | stage.step.last
        takes, arrives, step, b_signed = self._take(stage), Cat(slot.served for slot in stage.slots).any(), stage.step, stage.b_signed
        if self.cfg.transpose:
            takes = Mux(picker.valid, ~0, Mux(stage.piece.used, 0, takes))
            arrives = arrives & ~stage.piece.used
            step = data.View(step_layout(self.cfg), Mux(picker.valid, picker.step.as_value(), stage.step.as_value()))
            b_signed = Mux(picker.valid, picker.b_signed, b_signed)
            slots = range(self.cfg.piece_slots)
            m.d.comb += [picker.piece.eq(stage.piece), picker.served.eq(Cat(stage.slots[slot].served for slot in slots)),
                         picker.int16.eq(stage.step.int16)]
        take = Signal(self.cfg.positions)
        m.d.sync += take.eq(takes)
        m.submodules.broadcast = broadcast = BroadcastNetwork(self.cfg)
        if self.cfg.fetch_slots > 1:
            wide = Signal(len(broadcast.wide), reset_less=True)
            m.d.sync += wide.eq(Mux(picker.valid, 0, stage.mask) if self.cfg.transpose else stage.mask)
            m.d.comb += broadcast.wide.eq(wide)
        m.d.comb += [
            self.take.eq(take),
            self.arrival.eq(arrives),
            self.step.eq(step),
        ]
        banks = [Signal(8 * BANK_BYTES, name=f"bank_{bank}", reset_less=True) for bank in range(BANKS)]
        m.d.sync += [kept.eq(word) for kept, word in zip(banks, answer.payload.data, strict=True)]
        for slot in range(self.cfg.fetch_slots):
            if picker is not None and slot < self.cfg.piece_slots:
                value = self._select_line(m, slot, oldest.slots[slot], banks, picker)
            elif self.cfg.fetch_slots == 1:
                value = self._join(m, arrived, oldest.slots[slot].chunk, banks)
            else:
                value = self._select(m, slot, oldest.slots[slot], banks)
            elements = [self._element(step, b_signed, value, index) for index in range(self.cfg.dot)]
            self._register(m, slot, elements, broadcast.i[slot])
            m.d.comb += [element.eq(value) for element, value in zip(self.word[slot], broadcast.o[slot], strict=True)]
        return requests.o.valid & (oldest.step.step | Cat(slot.served for slot in oldest.slots).any()), ending

    def _take(self, request):
        """PEs, modulo ``positions``, whose word arrives."""
        slots = self.cfg.fetch_slots
        served = spread([slot.served for slot in request.slots], request.mask)
        takes = []
        for lane in range(self.cfg.positions):
            # Only the group of words with the position of the PE counts.
            elsewhere = [request.mask[bit] & (request.place[bit] != (lane >> bit & 1))
                         for bit in range(exact_log2(slots), exact_log2(self.cfg.positions))]
            takes.append(served[lane % slots] & ~any_of(elsewhere) if elsewhere else served[lane % slots])
        return Cat(takes)

    def _join(self, m, arrived, chunk, banks):
        """Word of the only fetch slot: registers that are zero for all other words, joined by OR."""
        words = []
        for number, bank in enumerate(banks):
            for place in range(BANK_BYTES // self.cfg.dot):
                word = bank.word_select(place, 8 * self.cfg.dot)
                with m.If(~(arrived[number] & (chunk == place))):
                    m.d.sync += word.eq(0)
                words.append(word)
        value = Signal(8 * self.cfg.dot, name="value")
        m.d.comb += value.eq(any_of(words))
        return value

    def _select(self, m, slot, request, banks):
        """Word of a fetch slot, selected from the words of the banks; ``request`` is one cycle ahead, so the controls come from registers.
        """
        chunks = BANK_BYTES // self.cfg.dot
        selected = [[Signal(name=f"select_{slot}_{bank}_{chunk}", reset_less=True) for chunk in range(chunks)]
                    for bank in range(BANKS)]
        for bank in range(BANKS):
            for chunk in range(chunks):
                m.d.sync += selected[bank][chunk].eq(request.bank[bank] & (request.chunk == chunk))
        controls = [select for of_bank in selected for select in of_bank]
        words = [bank.word_select(chunk, 8 * self.cfg.dot) for bank in banks for chunk in range(chunks)]
        value = Signal(8 * self.cfg.dot, name=f"value_{slot}")
        m.d.comb += value.eq(select_one_hot(controls, words))
        return value

    def _select_line(self, m, slot, request, banks, picker):
        """The same by the 16 bytes of a bank, which the transpose buffer needs. The word is the buffer's where it has one."""
        selected = [Signal(name=f"select_{slot}_{bank}", reset_less=True) for bank in range(BANKS)]
        m.d.sync += [select.eq(request.bank[bank]) for bank, select in enumerate(selected)]
        line, value = Signal(8 * BANK_BYTES, name=f"line_{slot}"), Signal(8 * self.cfg.dot, name=f"value_{slot}")
        chunk = Signal(exact_log2(BANK_BYTES // self.cfg.dot), name=f"chunk_{slot}", reset_less=True)
        m.d.sync += chunk.eq(request.chunk)
        m.d.comb += [line.eq(select_one_hot(selected, banks)), picker.line[slot].eq(line),
                     value.eq(line.word_select(chunk, 8 * self.cfg.dot))]
        if slot == 0:
            m.d.comb += value.eq(Mux(picker.valid, picker.word, line.word_select(chunk, 8 * self.cfg.dot)))
        return value

    def _register(self, m, slot, elements, word):
        """``word`` of a fetch slot: its elements, registered."""
        for index, (element, sink) in enumerate(zip(elements, word, strict=True)):
            extended = Signal(signed(self.cfg.element_bits), name=f"word_{slot}_{index}", reset_less=True)
            m.d.sync += extended.eq(element)
            m.d.comb += sink.eq(extended)

    def _element(self, step, b_signed, value, index):
        """Byte ``index`` of a word as a signed number, or its replacement with 16-bit elements."""
        byte, other, is_high = value.word_select(index, 8), value.word_select(index ^ 1, 8), index % 2
        if not self.cfg.mm16:
            return Cat(byte, b_signed & byte[7]).as_signed()
        if self.cfg.wide_lanes and not is_high:
            sign = b_signed & Mux(step.int16, other[7], byte[7])
            return Cat(byte, Mux(step.int16, other, sign.replicate(8)), sign).as_signed()
        byte = Mux(step.swapped, other, byte)
        holds_high = step.swapped ^ is_high       # only the high byte of an element has a sign
        return Cat(byte, b_signed & byte[7] & (~step.int16 | holds_high)).as_signed()
