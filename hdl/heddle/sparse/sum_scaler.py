"""Sum scaler: biases, multiplies, rounds and packs the sums of scaled rows."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..constants import BANK_BYTES
from ..isa.encoding import channel_bias_layout
from ..isa.sparse_job import BIAS_ROW, BOUNDS_ROW, MULTIPLIER_ROW, SCALE_ROWS, scale_bounds_layout
from ..lib.delay import Stages
from ..lib.multiplier import MULTIPLIER_LATENCY, Multiplier
from ..lib.narrow import Narrow
from ..lib.stream import Queue
from ..parameters.sparse import SparseParameters
from .layouts import piece_layout, result_layout

__all__ = ["SumScaler"]

TAPS = 4                                        # sums of a PE
WAYS = 2                                        # multipliers of a lane: sums of a PE that are scaled at once
SUM_LATENCY = 1 + MULTIPLIER_LATENCY + 1 + 2    # cycles from a sum to its byte in the packed word: operands, product, shift, narrowing
PIECES = 8                                      # places for packed words, also of those that are under way


class SumScaler(Component):
    """Sum scaler: turns the sums of eight PEs, 32 of them, into bytes; other results pass [S2.3].

    The bias of its column is added to a sum. It is multiplied with the multiplier of its column, and the upper 32 bits remain. These are
    shifted right and rounded, halves upwards. The byte is this number plus the zero point, within the bounds. With ``own_shifts`` of the
    bounds each column has a shift beside its bias, with ``double_rounding`` the product is rounded to a multiple of 2^31 first. Each of the
    eight lanes has two multipliers: it takes two sums of its PE, then the other two.

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

    *Latency*: ``SUM_LATENCY`` (7) + 2 cycles from ``i`` to ``o_piece``; ``o`` is combinational from ``i``.

    *Throughput*: sixteen sums a cycle.

    *Back-pressure*: ``i.ready`` of a scaled result comes from registers, in the second cycle in which it is taken. Another result waits
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
        item, used, pass_number = self.i.payload, Signal(range(PIECES + 1)), Signal(range(TAPS // WAYS))
        scales, takes, last = Signal(), Signal(), Signal()
        m.submodules.pieces = pieces = Queue(piece_layout(self.cfg), PIECES)
        m.d.comb += [
            scales.eq(item.scaled & ~item.empty), takes.eq(self.i.valid & scales & ((pass_number != 0) | (used != PIECES))),
            last.eq(takes & (pass_number == TAPS // WAYS - 1)), self.busy.eq(used != 0),
            self.o.valid.eq(self.i.valid & ~scales & ~self.busy), self.o.payload.eq(item),
            self.i.ready.eq(Mux(scales, last, self.o.ready & ~self.busy)),
            self.o_piece.valid.eq(pieces.o.valid), self.o_piece.payload.eq(pieces.o.payload), pieces.o.ready.eq(self.o_piece.ready),
        ]
        m.d.sync += [
            pass_number.eq(pass_number + takes), used.eq(used + (takes & (pass_number == 0)) - (self.o_piece.valid & self.o_piece.ready)),
        ]
        words = self._lanes(m, takes, pass_number)
        head = {name: Stages(m, item[name], f"piece_{name}")[SUM_LATENCY] for name in ("ends", "output")}
        m.d.comb += [
            pieces.i.valid.eq(Stages(m, last, "last", reset=True)[SUM_LATENCY]),
            *(pieces.i.payload[name].eq(value) for name, value in head.items()),
            pieces.i.payload.data.as_value().eq(Cat(words)),
        ]
        return m

    def _lanes(self, m, takes, pass_number):
        """Bounds, and the lanes; returns the packed words."""
        cfg, self._pass_number = self.cfg, pass_number
        self._bounds, self._under_way = Signal(scale_bounds_layout, reset_less=True), Stages(m, takes, "takes", reset=True)
        with m.If(self.write & (self.write_row == BOUNDS_ROW) & self.write_lanes[0]):
            m.d.sync += self._bounds.as_value().eq(self.data[0])
        self._group = Signal(range(cfg.thread_groups))         # that is written
        of_group = [self.write_lanes.word_select(number, cfg.thread_slots).any() for number in range(cfg.thread_groups)]
        m.d.comb += self._group.eq(Cat(Cat(written for number, written in enumerate(of_group) if number >> bit & 1).any()
                                       for bit in range(exact_log2(cfg.thread_groups))))
        words = []
        for slot in range(cfg.thread_slots):
            bytes_of_way = [self._way(m, slot, way) for way in range(WAYS)]
            words.append(Cat(each[number] for number in range(TAPS // WAYS) for each in bytes_of_way))
        assert 32 * len(words) == 2 * 8 * BANK_BYTES
        return words

    def _way(self, m, slot, way):
        """Scales of every second sum of a lane, and their way to bytes, which it returns, the first one first."""
        cfg, pass_number, bounds, under_way, name = self.cfg, self._pass_number, self._bounds, self._under_way, f"{slot}_{way}"
        written, values = self.write_lanes[slot::cfg.thread_slots].any(), []
        for kind, first in (("bias", BIAS_ROW), ("multiplier", MULTIPLIER_ROW)):
            m.submodules[f"{kind}_{name}"] = memory = Memory(shape=32, depth=TAPS // WAYS * cfg.thread_groups, init=[])
            write, read = memory.write_port(), memory.read_port(domain="comb")
            row = self.write_row
            m.d.comb += [
                write.addr.eq(Cat(row[1], self._group)), write.data.eq(self.data[slot]),
                read.addr.eq(Cat(pass_number, self.i.payload.group)),
                write.en.eq(self.write & (row[2:] == first // TAPS) & (row[0] == way) & written),
            ]
            values.append(read.data)
        bias, amount = self._bias(m, values[0], name)
        a, b = (Signal(32, name=f"{kind}_{name}", reset_less=True) for kind in ("biased", "factor"))
        shifted = Signal(33, name=f"shifted_{name}", reset_less=True)
        m.submodules[f"product_{name}"] = product = Multiplier(nudged=True)
        m.submodules[f"narrow_{name}"] = narrow = Narrow(bounded=True)
        m.d.sync += [
            a.eq(self.i.payload.data[slot].word_select(Cat(Const(way, 1), pass_number), 32) + bias), b.eq(values[1]),
            shifted.eq(Cat(0, product.o).as_signed() >> amount),
        ]
        m.d.comb += [
            product.valid.eq(under_way[1]), product.a.eq(a), product.b.eq(b), product.high.eq(1),
            product.nudge.eq(bounds.double_rounding),
            narrow.shifted.eq(shifted), narrow.take.eq(under_way[SUM_LATENCY - 2]), narrow.unsigned.eq(bounds.unsigned),
            *(getattr(narrow, field).eq(bounds[field]) for field in ("zero_point", "minimum", "maximum")),
        ]
        return [narrow.word.word_select(number, 8) for number in range(TAPS - TAPS // WAYS, TAPS)]

    def _bias(self, m, word, name):
        """The bias in a word of the biases, and the shift of its product when that is there."""
        own, amount = channel_bias_layout(word), Signal(5, name=f"amount_{name}")
        m.d.comb += amount.eq(Mux(self._bounds.own_shifts, own.shift, self._bounds.shift))
        return Mux(self._bounds.own_shifts, own.bias, word.as_signed()), Stages(m, amount, f"amount_{name}")[1 + MULTIPLIER_LATENCY]
