"""Sum scaler: biases, multiplies, rounds and packs the sums of scaled rows."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..isa.sparse_job import BIAS_ROW, BOUNDS_ROW, MULTIPLIER_ROW, SCALE_ROWS, scale_bounds_layout
from ..lib.delay import Stages
from ..lib.multiplier import MULTIPLIER_LATENCY, Multiplier
from ..lib.narrow import Narrow
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import piece_layout, result_layout

__all__ = ["SumScaler"]

TAPS = 4                                        # sums of a PE
SUM_LATENCY = 1 + MULTIPLIER_LATENCY + 1 + 2    # cycles from a sum to its byte in the packed word: operands, product, shift, narrowing
PIECES = 4                                      # places for packed words, also of those that are under way


class SumScaler(Component):
    """Sum scaler: turns the sums of eight PEs, 32 of them, into bytes; other results pass [S2.3].

    A byte is the sum plus the bias of its column, times its multiplier / 2^32, shifted right and rounded, halves upwards, plus the zero
    point, within the bounds. Each of the eight lanes has a multiplier and takes the four sums of its PE one after the other.

    Parameters
    ----------
    cfg : SparseParameters

    *Ports*:
    i : In(stream.Signature(result_layout(cfg)))
        Results of the row drain.
    o : Out(stream.Signature(result_layout(cfg)))
        Those without ``scaled``, in order with the packed ones.
    o_piece : Out(stream.Signature(piece_layout(cfg)))
        Packed bytes of the scaled ones.
    write : In(1)
        ``data`` are biases, multipliers or bounds of a row of the scales,
    write_row : In(range(SCALE_ROWS))
        of this one,
    write_lanes : In(threads)
        for these PEs.
    data : In(32).array(thread_slots)
        Data for each PE of a group of eight.
    busy : Out(1)
        Scaled results have not left.

    *Latency*: ``SUM_LATENCY`` (7) + 4 cycles from ``i`` to ``o_piece``; ``o`` is combinational from ``i``.

    *Throughput*: eight sums a cycle.

    *Back-pressure*: ``i.ready`` of a scaled result comes from registers, in the fourth cycle in which it is taken. Another result waits
    until the scaled ones before it have left.

    *Reset*: no result is under way; biases, multipliers and bounds have no reset.
    """

    def __init__(self, cfg):
        self.cfg = cfg = SparseParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(result_layout(cfg))), "o": Out(stream.Signature(result_layout(cfg))),
            "o_piece": Out(stream.Signature(piece_layout(cfg))), "write": In(1), "write_row": In(range(SCALE_ROWS)),
            "write_lanes": In(cfg.threads), "data": In(32).array(cfg.thread_slots), "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        item, used, tap = self.i.payload, Signal(range(PIECES + 1)), Signal(range(TAPS))
        scales, takes, last = Signal(), Signal(), Signal()
        m.submodules.pieces = pieces = Queue(piece_layout(self.cfg), PIECES)
        m.d.comb += [
            scales.eq(item.scaled & ~item.empty), takes.eq(self.i.valid & scales & ((tap != 0) | (used != PIECES))),
            last.eq(takes & (tap == TAPS - 1)), self.busy.eq(used != 0),
            self.o.valid.eq(self.i.valid & ~scales & ~self.busy), self.o.payload.eq(item),
            self.i.ready.eq(Mux(scales, last, self.o.ready & ~self.busy)),
            self.o_piece.valid.eq(pieces.o.valid), self.o_piece.payload.eq(pieces.o.payload), pieces.o.ready.eq(self.o_piece.ready),
        ]
        m.d.sync += [
            tap.eq(tap + takes), used.eq(used + (takes & (tap == 0)) - (self.o_piece.valid & self.o_piece.ready)),
        ]
        words = self._lanes(m, takes, tap)
        head = {name: Stages(m, item[name], f"piece_{name}")[SUM_LATENCY] for name in ("ends", "output")}
        m.d.comb += [
            pieces.i.valid.eq(Stages(m, last, "last", reset=True)[SUM_LATENCY]),
            *(pieces.i.payload[name].eq(value) for name, value in head.items()),
            pieces.i.payload.data.as_value().eq(Cat(words)),
        ]
        return m

    def _lanes(self, m, takes, tap):
        """Scales of each lane, and its way from a sum to a byte; returns the packed words."""
        cfg, row, words = self.cfg, self.write_row, []
        bounds, under_way = Signal(scale_bounds_layout, reset_less=True), Stages(m, takes, "takes", reset=True)
        with m.If(self.write & (row == BOUNDS_ROW) & self.write_lanes[0]):
            m.d.sync += bounds.as_value().eq(self.data[0])
        groups = exact_log2(cfg.thread_groups)
        written = [self.write_lanes[slot::cfg.thread_slots] for slot in range(cfg.thread_slots)]       # of each group
        for slot in range(cfg.thread_slots):
            place, values = Cat(tap, self.i.payload.group), []
            group = Signal(range(cfg.thread_groups), name=f"group_{slot}")
            m.d.comb += group.eq(Cat(Cat(written[slot][number] for number in range(cfg.thread_groups) if number >> bit & 1).any()
                                     for bit in range(groups)))
            for name, first in (("bias", BIAS_ROW), ("multiplier", MULTIPLIER_ROW)):
                m.submodules[f"{name}_{slot}"] = memory = Memory(shape=32, depth=TAPS * cfg.thread_groups, init=[])
                write, read = memory.write_port(), memory.read_port(domain="comb")
                m.d.comb += [
                    write.addr.eq(Cat(row[:2], group)), write.data.eq(self.data[slot]), read.addr.eq(place),
                    write.en.eq(self.write & (row[2:] == first // TAPS) & written[slot].any()),
                ]
                values.append(read.data)
            a, b = (Signal(32, name=f"{name}_{slot}", reset_less=True) for name in ("biased", "factor"))
            shifted = Signal(33, name=f"shifted_{slot}", reset_less=True)
            m.submodules[f"product_{slot}"] = product = Multiplier()
            m.submodules[f"narrow_{slot}"] = narrow = Narrow(bounded=True)
            m.d.sync += [
                a.eq(self.i.payload.data[slot].word_select(tap, 32) + values[0]), b.eq(values[1]),
                shifted.eq(Cat(0, product.o).as_signed() >> bounds.shift),
            ]
            m.d.comb += [
                product.valid.eq(under_way[1]), product.a.eq(a), product.b.eq(b), product.high.eq(1),
                narrow.shifted.eq(shifted), narrow.take.eq(under_way[SUM_LATENCY - 2]), narrow.unsigned.eq(bounds.unsigned),
                *(getattr(narrow, name).eq(bounds[name]) for name in ("zero_point", "minimum", "maximum")),
            ]
            words.append(narrow.word)
        assert 32 * len(words) == 2 * 8 * BANK_BYTES
        return words
