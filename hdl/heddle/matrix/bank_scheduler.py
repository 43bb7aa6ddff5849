"""Bank scheduler: conflict-free bank requests for the words of B."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES, BANKS
from ..lib.onehot import any_of
from ..parameters.matrix import MatrixParameters
from .layouts import entry_fields, slots_layout, word_request_layout

__all__ = ["BankScheduler"]


class BankScheduler(Component):
    """Bank scheduler with conflict replay: requests the words of a group in rounds, in each of which a bank reads at most one row.

    Words in the same 16 bytes are read once. In every bank the lowest waiting fetch slot goes first; words with a conflict are replayed in
    the next round. The step leaves with the last round.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(slots_layout(cfg)))
        Checked words of a group.
    o : Out(stream.Signature(word_request_layout(cfg)))
        Bank requests of one round, or a step or an end without words; registered.
    again : Out(1)
        In the next cycle another round of the same group is at ``o``: a bank is read again for it.
    pending : Out(1)
        Words are in flight, at ``i`` included, at ``o`` not; low with one fetch slot.

    *Latency*: from ``i`` to ``o`` one cycle with one fetch slot, else three cycles. Each further round adds one.

    *Throughput*: one round a cycle.

    *Back-pressure*: ``i.ready`` is combinational from ``o.ready``, and low while rounds remain. All stages hold while a round at ``o`` is
    not taken.

    *Reset*: no group is in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(slots_layout(cfg))),
            "o": Out(stream.Signature(word_request_layout(cfg))),
            "again": Out(1),
            "pending": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        slots, moves = self.cfg.fetch_slots, Signal()
        m.d.comb += moves.eq(~self.o.valid | self.o.ready)
        if slots == 1:
            group, served, leader = self.i.payload, self.i.payload.used, self.i.payload.used
            m.d.comb += self.i.ready.eq(moves)
        else:
            group, served, leader = self._rounds(m, slots, moves)
        self._request(m, group, served, leader, moves)
        return m

    def _banks(self, word):
        """Bank and row of an address in units of ``dot`` bytes."""
        chunk_bits = exact_log2(BANK_BYTES // self.cfg.dot)
        return word[chunk_bits:][:exact_log2(BANKS)], word[chunk_bits + exact_log2(BANKS):]

    def _rounds(self, m, slots, moves):
        """Compares all words of a group with each other, then selects rounds.

        Returns the group, its words of this round, and the first of each bank among them.
        """
        layout = slots_layout(self.cfg)
        compared = Signal(layout)
        ordered = Signal(layout)
        waiting = Signal(slots)             # words that are not read yet, one for each 16 bytes of memory
        leader = Signal(slots)              # the first of each bank among them
        served = Signal(slots)              # words that are read in this round
        more = Signal()                     # rounds after this one
        m.d.comb += [self.i.ready.eq(moves & ~more), self.again.eq(moves & more)]
        same_bank, same_word, same = {}, {}, {}
        for j in range(slots):
            for i in range(j):
                bank, row = self._banks(self.i.payload.words[i])
                other_bank, other_row = self._banks(self.i.payload.words[j])
                same_bank[i, j] = Signal(name=f"same_bank_{i}_{j}", reset_less=True)
                same_word[i, j] = Signal(name=f"same_word_{i}_{j}", reset_less=True)
                same[i, j] = Signal(2, name=f"same_{i}_{j}", reset_less=True)
                equal = bank == other_bank
                with m.If(self.i.ready):
                    m.d.sync += [
                        same_bank[i, j].eq(equal),
                        same_word[i, j].eq(equal & (row == other_row)),
                        same[i, j].eq(Cat(same_bank[i, j], same_word[i, j])),
                    ]
        repeated = Signal(slots)
        rest = Signal(slots)
        for j in range(slots):
            if j:
                m.d.comb += repeated[j].eq(any_of(compared.used[i] & same_word[i, j] for i in range(j)))
            blocked = any_of(waiting[i] & same[i, j][0] for i in range(j)) if j else Const(0)
            m.d.comb += [
                leader[j].eq(waiting[j] & ~blocked),
                served[j].eq(any_of([leader[j]] + [leader[i] & same[i, j][1] for i in range(j)]) & ordered.used[j]),
            ]
        m.d.comb += [
            rest.eq(waiting & ~leader),
            more.eq(rest.any()),
            self.pending.eq(Cat(stage.used.any() | stage.last for stage in (self.i.payload, compared, ordered)).any()),
        ]
        with m.If(self.i.ready):
            m.d.sync += [compared.eq(self.i.payload), ordered.eq(compared), waiting.eq(compared.used & ~repeated)]
        with m.Elif(moves):
            m.d.sync += waiting.eq(rest)
        step = Signal(layout, name="group")
        m.d.comb += step.eq(ordered)
        with m.If(more):
            m.d.comb += [step.step.eq(0), step.last.eq(0)]
            if self.cfg.transpose:
                m.d.comb += step.piece.last.eq(0)
        return step, served, leader

    def _request(self, m, group, served, leader, moves):
        cfg = self.cfg
        request = Signal(word_request_layout(cfg))
        ends = request.step.last | (request.piece.last if cfg.transpose else 0)
        m.d.comb += [self.o.payload.eq(request), self.o.valid.eq(request.bank.any() | request.step.step | ends)]
        words = [self._banks(word) for word in group.words]
        one_hot = [Signal(BANKS, name=f"bank_{slot}") for slot in range(cfg.fetch_slots)]
        m.d.comb += [bank.eq(1 << number) for bank, (number, _) in zip(one_hot, words, strict=True)]
        lanes = range(cfg.threads)
        active = Cat(group.merge.active[lane % cfg.positions] for lane in lanes)
        receivers = active & Cat(group.merge.destination[lane % 4] for lane in lanes)
        banks = Cat(any_of(leader[slot] & one_hot[slot][bank] for slot in range(cfg.fetch_slots)) for bank in range(BANKS))
        with m.If(moves):
            m.d.sync += request.bank.eq(banks)
            for slot in range(cfg.fetch_slots):
                m.d.sync += [
                    request.slots[slot].served.eq(served[slot]),
                    request.slots[slot].bank.eq(one_hot[slot]),
                    request.slots[slot].chunk.eq(group.words[slot]),
                ]
            for bank, row in enumerate(request.rows):
                if cfg.fetch_slots == 1:
                    m.d.sync += row.eq(words[0][1])
                else:
                    m.d.sync += row.eq(any_of(Mux(leader[slot] & one_hot[slot][bank], words[slot][1], 0)
                                              for slot in range(cfg.fetch_slots)))
            m.d.sync += [
                request.place.eq(group.merge.place),
                request.mask.eq(group.merge.mask),
                request.b_signed.eq(group.b_signed),
                request.step.lanes.eq(group.lanes & active),
                request.step.receivers.eq((group.lanes & receivers) | group.merge.receive_total),
                request.step.pairs.eq(group.merge.pairs),
                request.step.quads.eq(group.merge.quads),
                request.step.total.eq(group.merge.total),
            ]
            if cfg.transpose:
                m.d.sync += request.piece.eq(group.piece)
            m.d.sync += [getattr(request, name).eq(getattr(group, name)) for name in entry_fields(cfg)]
            for name in ("step", "last", "product", "factor_word", "zero", "a_signed", "int16", "swapped"):
                m.d.sync += getattr(request.step, name).eq(getattr(group, name))
