"""Word selection: from the answers of shared memory to the words and steps of the PEs."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..interfaces.datapath import step_layout
from ..interfaces.layouts import shared_answer_layout, word_number_bits
from ..lib.onehot import any_of, select_one_hot
from ..parameters.matrix import MatrixParameters
from .broadcast_network import BroadcastNetwork, spread
from .layouts import pick_layout, word_request_layout
from .transpose_buffer import TransposeBuffer

__all__ = ["WordSelect"]


class WordSelect(Component):
    """Word selection: takes the words of each round from the answers of shared memory and gives them to the PEs with their step.

    Answers stand in a register for each bank. Behind it each fetch slot selects its word, which the broadcast network repeats for the PEs.
    With ``transpose`` the pieces of rows go to the transpose buffer, whose words take the place of the others.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(word_request_layout(cfg)))
        Rounds, in the order of their requests. A round is taken with its last answer, one without banks at once.
    answer : In(stream.Signature(shared_answer_layout, always_ready=True))
        Answers of shared memory.
    i_pick : In(stream.Signature(pick_layout(cfg)))
        With ``transpose``: steps with a column of the transpose buffer.
    step : Out(step_layout(cfg))
        Step for the PEs, in the cycle in which the last of its words is in the register behind its bank.
    word : Out(signed(element_bits)).array(fetch_slots, dot)
        Words of B, one cycle later.
    take : Out(positions)
        Bit t mod ``positions``: the word of PE t is at ``word``.
    arrival : Out(1)
        Words are in the registers behind the banks.
    pending : Out(1)
        The round at ``i`` has words, or completes a step.
    ending : Out(1)
        An operation ends with the round at ``i`` or with the words behind the banks.
    picking : Out(1)
        With ``transpose``: steps are in flight in the transpose buffer.
    switched : Out(1)
        With ``transpose``: a new set of pieces comes into use in the transpose buffer.
    fill, fill_word : Out(1), Out(word_number_bits(cfg))
        With ``compiled_offsets``: the word of slot 0 goes to the compiled-offset memory, to word ``fill_word``; together with ``word``. Its
        step has no ``step``.
    fill_end : Out(1)
        With ``compiled_offsets``: all words of such an operation were at ``word``.

    *Latency*: one cycle from the last answer of a round to ``step``, two to ``word``. From ``i_pick`` two to ``step``, three to ``word``.

    *Throughput*: one round a cycle.

    *Back-pressure*: ``i.ready`` is combinational from ``i`` and ``answer``. Nothing holds ``step`` and ``word``.

    *Reset*: no step is in flight; words have no reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(word_request_layout(cfg))),
            "answer": In(stream.Signature(shared_answer_layout, always_ready=True)),
            "step": Out(step_layout(cfg)),
            "word": Out(signed(cfg.element_bits)).array(cfg.fetch_slots, cfg.dot),
            "take": Out(cfg.positions),
            "arrival": Out(1), "pending": Out(1), "ending": Out(1),
            **({"fill": Out(1), "fill_word": Out(word_number_bits(cfg)), "fill_end": Out(1)} if cfg.compiled_offsets else {}),
            **({"i_pick": In(stream.Signature(pick_layout(cfg))), "picking": Out(1), "switched": Out(1)} if cfg.transpose else {}),
        })

    def elaborate(self, platform):
        m = Module()
        oldest, answer, transpose = self.i.payload, self.answer, None
        arrived = Signal(BANKS)
        complete = Signal()
        m.d.comb += [
            arrived.eq(Mux(answer.valid, answer.payload.bank, 0)),
            complete.eq(self.i.valid & ((answer.valid & answer.payload.last) | ~oldest.bank.any())),
            self.i.ready.eq(complete),
        ]
        stage = Signal(word_request_layout(self.cfg), name="arrived_request")       # with the registers behind the banks
        m.d.sync += [
            stage.eq(oldest),
            *(slot.served.eq(asking.served & (asking.bank & arrived).any())
              for slot, asking in zip(stage.slots, oldest.slots, strict=True)),
            stage.step.step.eq(oldest.step.step & complete), stage.step.last.eq(oldest.step.last & complete),
        ]
        takes, arrives, step, b_signed = self._take(stage), Cat(slot.served for slot in stage.slots).any(), stage.step, stage.b_signed
        if self.cfg.byte_entries:       # a word of bytes is whole with its step
            takes = Mux(stage.by_byte, stage.step.step.replicate(self.cfg.positions), takes)
        if self.cfg.transpose:
            m.d.sync += stage.piece.last.eq(oldest.piece.last & complete)
            m.submodules.transpose = transpose = self._transpose_buffer(m, stage)
            takes = Mux(transpose.valid, ~0, Mux(stage.piece.used, 0, takes))
            arrives = arrives & ~stage.piece.used
            step = data.View(step_layout(self.cfg), Mux(transpose.valid, transpose.step.as_value(), stage.step.as_value()))
            b_signed = Mux(transpose.valid, transpose.b_signed, b_signed)
        m.submodules.broadcast = broadcast = BroadcastNetwork(self.cfg)
        take = Signal(self.cfg.positions)
        m.d.sync += take.eq(takes)
        m.d.comb += [
            self.take.eq(take), self.arrival.eq(arrives), self.step.eq(self._step(m, step, stage, transpose)),
            self.ending.eq((self.i.valid & oldest.step.last) | stage.step.last),
            self.pending.eq(self.i.valid & (oldest.step.step | Cat(slot.served for slot in oldest.slots).any())),
        ]
        if self.cfg.fetch_slots > 1:
            wide = Signal(exact_log2(self.cfg.fetch_slots), name="wide", reset_less=True)
            m.d.sync += wide.eq(Mux(transpose.valid, 0, stage.mask) if self.cfg.transpose else stage.mask)
            m.d.comb += broadcast.wide.eq(wide)
        values = list(self._values(m, arrived, transpose))
        if self.cfg.byte_entries:
            of_bytes = stage.by_byte if transpose is None else stage.by_byte & ~transpose.valid
            values[0] = Mux(of_bytes, self._bytes(m, stage, values), values[0])
        for slot, value in enumerate(values):
            elements = [self._element(step, b_signed, value, index) for index in range(self.cfg.dot)]
            self._register(m, slot, elements, broadcast.i[slot])
            m.d.comb += [element.eq(word) for element, word in zip(self.word[slot], broadcast.o[slot], strict=True)]
        if self.cfg.compiled_offsets:
            self._fill(m, stage)
        return m

    def _fill(self, m, stage):
        """Words for the compiled-offset memory instead of a step."""
        m.d.sync += [
            self.fill.eq(stage.fill & stage.step.step), self.fill_word.eq(stage.fill_word),
            self.fill_end.eq(stage.fill & stage.step.last),
        ]

    def _bytes(self, m, stage, values):
        """A word of single bytes, each of its slot. Those of earlier rounds are kept; the word is whole with the last one."""
        numbers = [Signal(range(self.cfg.dot), name=f"byte_{slot}", reset_less=True) for slot in range(self.cfg.dot)]
        m.d.sync += [number.eq(place) for number, place in zip(numbers, self.i.payload.bytes, strict=True)]
        kept, word = Signal(8 * self.cfg.dot, reset_less=True), Signal(8 * self.cfg.dot, name="word_of_bytes")
        m.d.sync += kept.eq(word)
        for slot, number in enumerate(numbers):
            byte = Mux(stage.slots[slot].served, values[slot].word_select(number, 8), kept.word_select(slot, 8))
            m.d.comb += word.word_select(slot, 8).eq(byte)
        return word

    def _transpose_buffer(self, m, stage):
        """The transpose buffer, to which pieces go."""
        transpose = TransposeBuffer(self.cfg)
        connect(m, flipped(self.i_pick), transpose.i)
        m.d.comb += [
            transpose.piece.eq(stage.piece), transpose.served.eq(Cat(stage.slots[slot].served for slot in range(self.cfg.piece_slots))),
            transpose.int16.eq(stage.step.int16), self.picking.eq(transpose.busy), self.switched.eq(transpose.switched),
        ]
        return transpose

    def _values(self, m, arrived, transpose):
        """Registers behind the banks; yields the word that each fetch slot selects."""
        oldest = self.i.payload
        banks = [Signal(8 * BANK_BYTES, name=f"bank_{bank}", reset_less=True) for bank in range(BANKS)]
        m.d.sync += [kept.eq(word) for kept, word in zip(banks, self.answer.payload.data, strict=True)]
        for slot in range(self.cfg.fetch_slots):
            if transpose is not None and slot < self.cfg.piece_slots:
                yield self._select_line(m, slot, oldest.slots[slot], banks, transpose)
            elif self.cfg.fetch_slots == 1:
                yield self._join(m, arrived, oldest.slots[slot].chunk, banks)
            else:
                yield self._select(m, slot, oldest.slots[slot], banks)

    def _step(self, m, step, stage, transpose):
        """The step for the PEs: none for words of the compiled-offset memory."""
        if not self.cfg.compiled_offsets:
            return step
        sent = Signal(step_layout(self.cfg), name="sent")
        m.d.comb += sent.eq(step)
        with m.If(stage.fill & (1 if transpose is None else ~transpose.valid)):
            m.d.comb += sent.step.eq(0)
        return sent

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

    def _select_line(self, m, slot, request, banks, transpose):
        """The same by the 16 bytes of a bank, which the transpose buffer needs. The word is the buffer's where it has one."""
        selected = [Signal(name=f"select_{slot}_{bank}", reset_less=True) for bank in range(BANKS)]
        m.d.sync += [select.eq(request.bank[bank]) for bank, select in enumerate(selected)]
        line, value = Signal(8 * BANK_BYTES, name=f"line_{slot}"), Signal(8 * self.cfg.dot, name=f"value_{slot}")
        chunk = Signal(exact_log2(BANK_BYTES // self.cfg.dot), name=f"chunk_{slot}", reset_less=True)
        m.d.sync += chunk.eq(request.chunk)
        m.d.comb += [line.eq(select_one_hot(selected, banks)), transpose.line[slot].eq(line),
                     value.eq(line.word_select(chunk, 8 * self.cfg.dot))]
        if slot == 0:
            m.d.comb += value.eq(Mux(transpose.valid, transpose.word, line.word_select(chunk, 8 * self.cfg.dot)))
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
