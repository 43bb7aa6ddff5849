"""Access stage of an L2 bank: reads, fills and reductions of the contents, in the order of the look-ups."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.layouts import read_data_layout
from ..isa.encoding import Reduction
from ..parameters.l2 import L2Parameters
from .data import L2Data
from .layouts import L2Sizes, line_answer_layout, line_beat_layout
from .lookup import line_access_layout
from .reduction_unit import ReductionUnit, reducer_latency

__all__ = ["L2Access", "reduced_beat_layout"]


def reduced_beat_layout(cfg):
    """Result of a reduction: a beat for memory, with byte enables ``strobe``.

    ``begins`` and ``ends`` are those of the operand. ``error``: the old value could not be read, and ``strobe`` is zero.
    """
    return data.StructLayout({"data": cfg.axi_data_bits, "strobe": cfg.axi_bytes, "begins": 1, "ends": 1, "error": 1})


class L2Access(Component):
    """Access stage of an L2 bank: executes one access after the other, one beat per cycle.

    A fill takes its beats from ``i_fill``, which delivers the fills in the order of their requests. Beats that are read, from the
    contents or directly from the fill, appear at ``o_answer``. Beats that are reduced are paired with the beats of ``i_beat``, pass the
    reduction unit and leave at ``o_reduced``. The contents are written in the cycle in which ``o_reduced`` is accepted.

    Parameters
    ----------
    cfg : L2Parameters

    *Ports*:
    i_access : In(stream of line_access_layout(cfg))
        Accesses, in the order of the look-ups.
    i_fill : In(stream of read_data_layout(cfg, cfg.axi_id_bits))
        Read data of memory.
    o_answer : Out(stream of line_answer_layout(cfg))
        Read data for the cores.
    i_beat : In(stream of line_beat_layout(cfg))
        New values of the reductions, in order. Only with ``cfg.reductions``.
    o_reduced : Out(stream of reduced_beat_layout(cfg))
        Results of the reductions. Only with ``cfg.reductions``.
    reducing : Out(1)
        A beat accepted at ``i_beat`` was not yet accepted at ``o_reduced``. Only with ``cfg.reductions``.
    failed : Out(1)
        A beat with an error was accepted at ``i_fill`` in the cycle before.

    *Latency*: 2 cycles from the cycle in which a beat is accessed to ``o_answer``; ``reducer_latency(cfg)`` + 1 cycles to
    ``o_reduced``.

    *Throughput*: one beat per cycle. A beat waits while an earlier reduction of the same row is in flight. A beat that fills the
    contents waits in the cycle in which a result is at ``o_reduced``.

    *Back-pressure*: ``ready`` of ``i_access``, ``i_fill`` and ``i_beat`` depend combinationally on each other's ``valid`` and payload.
    All three also depend on ``o_answer.ready`` and ``o_reduced.ready``. ``o_answer`` is registered. ``o_reduced`` has the output registers
    of the reduction unit.

    *Reset*: drops all beats in flight.

    *Errors*: an error of ``i_fill`` is stored with the beat. Reads of it are answered with ``error``; a reduction of it writes no byte.
    """

    def __init__(self, cfg):
        cfg = L2Parameters.of(cfg)
        self.cfg, self.sizes = cfg, L2Sizes(cfg)
        members = {
            "i_access": In(stream.Signature(line_access_layout(cfg))),
            "i_fill": In(stream.Signature(read_data_layout(cfg, cfg.axi_id_bits))),
            "o_answer": Out(stream.Signature(line_answer_layout(cfg))),
            "failed": Out(1),
        }
        if cfg.reductions:
            members |= {"i_beat": In(stream.Signature(line_beat_layout(cfg))),
                        "o_reduced": Out(stream.Signature(reduced_beat_layout(cfg))), "reducing": Out(1)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        m.submodules.contents = contents = L2Data(self.cfg)
        fetched = self._fetched_registers()
        now = self._beat(m)
        m.d.comb += [contents.read_row.eq(now.row), contents.read_enable.eq(now.go & ~self.i_access.payload.fills)]
        blocked = Const(0)
        reduced = self._reduce(m, contents, fetched, now) if self.cfg.reductions else None
        if reduced is not None:
            blocked = reduced.blocks
        self._fetch(m, fetched, now, blocked)
        self._answer(m, contents, fetched)
        self._fill(m, contents, now, reduced)
        return m

    def _beat(self, m):
        """The next beat of the oldest access."""
        access = self.i_access.payload
        beat, begun = Signal(self.sizes.beat_bits), Signal()
        now = SimpleNamespace(**{name: Signal(name=f"now_{name}") for name in ("go", "ends")})
        now.number = Signal(self.sizes.beat_bits, name="now_number")
        now.row = Cat(now.number, access.place)
        m.d.comb += [
            now.number.eq(Mux(begun, beat, access.first)),
            now.ends.eq(now.number == access.last), self.i_access.ready.eq(now.go & now.ends),
            self.i_fill.ready.eq(now.go & access.fills),
        ]
        with m.If(now.go):
            m.d.sync += [beat.eq(now.number + 1), begun.eq(~now.ends)]
        m.d.sync += self.failed.eq(now.go & access.fills & self.i_fill.payload.error)
        return now

    def _fetched_registers(self):
        """Registers of the beat that was accessed in the cycle before, or waits."""
        shapes = {"answers": 1, "reduces": 1, "filled": 1, "error": 1, "ends": 1, "core": self.cfg.core_bits,
                  "data": self.cfg.axi_data_bits, "row": self.sizes.place_bits + self.sizes.beat_bits}
        registers = {name: Signal(shape, name=f"fetched_{name}", reset_less=name not in ("answers", "reduces"))
                     for name, shape in shapes.items()}
        return SimpleNamespace(**registers, free=Signal(name="fetched_free"))

    def _fetch(self, m, fetched, now, blocked):
        access = self.i_access.payload
        m.d.comb += now.go.eq(self.i_access.valid & (~access.fills | self.i_fill.valid) & fetched.free & ~blocked)
        with m.If(fetched.free):
            m.d.sync += [fetched.answers.eq(now.go & access.answers), fetched.reduces.eq(now.go & access.reduces)]
        with m.If(now.go):
            m.d.sync += [fetched.filled.eq(access.fills), fetched.error.eq(self.i_fill.payload.error), fetched.ends.eq(now.ends),
                         fetched.core.eq(access.core), fetched.data.eq(self.i_fill.payload.data), fetched.row.eq(now.row)]

    def _value(self, contents, fetched):
        return Mux(fetched.filled, fetched.data, contents.read_data), Mux(fetched.filled, fetched.error, contents.read_error)

    def _answer(self, m, contents, fetched):
        out = self.o_answer
        free = Signal(name="answer_free")
        value, error = self._value(contents, fetched)
        m.d.comb += free.eq(~out.valid | out.ready)
        reducing = fetched.reduces & ~self._reducer_enable if self.cfg.reductions else 0
        m.d.comb += fetched.free.eq(~(fetched.answers & ~free) & ~reducing)
        with m.If(free):
            m.d.sync += [out.valid.eq(fetched.answers), out.payload.data.eq(value), out.payload.error.eq(error),
                         out.payload.ends.eq(fetched.ends), out.payload.core.eq(fetched.core)]

    def _fill(self, m, contents, now, reduced):
        """Write port of the contents: a beat of a fill, or the result of a reduction."""
        fills = now.go & self.i_access.payload.fills
        answer = self.i_fill.payload
        writes = [(fills & ~reduced.whole if reduced else fills, now.row, answer.data, Const(-1, self.cfg.axi_bytes), answer.error)]
        if reduced:
            writes.append((reduced.writes, reduced.row, reduced.data, reduced.strobe, reduced.error))
        for condition, row, value, mask, error in writes:
            with m.If(condition):
                m.d.comb += [contents.write_row.eq(row), contents.write_data.eq(value), contents.write_mask.eq(mask),
                             contents.write_mark.eq(1), contents.write_error.eq(error)]

    # -- reductions -------------------------------------------------------------------------

    def _reduce(self, m, contents, fetched, now):
        """Reduction unit behind the accessed beat, and the registers that accompany the beat.

        Returns ``blocks`` (the next beat must wait), ``whole`` (all its bytes will be overwritten by the result) and the write of the
        result: ``writes``, ``row``, ``data``, ``strobe``, ``error``.
        """
        cfg, beat, out = self.cfg, self.i_beat.payload, self.o_reduced
        m.submodules.reducer = reducer = ReductionUnit(cfg)
        enable = self._reducer_enable = reducer.enable
        fields = {"strobe": cfg.axi_bytes, "begins": 1, "ends": 1}
        written = {name: Signal(shape, name=f"fetched_{name}", reset_less=True)
                   for name, shape in (fields | {"new": cfg.axi_data_bits, "reduction": Reduction, "format": beat.format.shape()}).items()}
        with m.If(now.go):
            m.d.sync += [written["new"].eq(beat.data), *(register.eq(beat[name]) for name, register in written.items() if name != "new")]
        value, error = self._value(contents, fetched)
        m.d.comb += [reducer.old.eq(value), reducer.new.eq(written["new"]), reducer.reduction.eq(written["reduction"]),
                     reducer.format.eq(written["format"]), enable.eq(~out.valid | out.ready),
                     self.i_beat.ready.eq(now.go & self.i_access.payload.reduces)]
        stages = self._stages(m, enable, {"valid": fetched.reduces, "row": fetched.row, "error": error,
                                          **{name: written[name] for name in fields}})
        last = stages[-1]
        m.d.comb += [
            out.valid.eq(last["valid"]), out.payload.data.eq(reducer.result), out.payload.error.eq(last["error"]),
            out.payload.strobe.eq(Mux(last["error"], 0, last["strobe"])),
            out.payload.begins.eq(last["begins"]), out.payload.ends.eq(last["ends"]),
        ]
        inside = [(fetched.reduces, fetched.row), *((stage["valid"], stage["row"]) for stage in stages)]
        m.d.comb += self.reducing.eq(Cat(valid for valid, _ in inside).any())
        whole, blocks = Signal(name="reduced_whole"), Signal(name="reduced_blocks")
        writes = out.valid & out.ready
        reduces = self.i_access.payload.reduces
        writes_contents = self.i_access.payload.fills & ~whole
        m.d.comb += [
            whole.eq(reduces & beat.strobe.all()),
            blocks.eq(Cat(valid & (row == now.row) for valid, row in inside).any() | (reduces & ~self.i_beat.valid)
                      | (last["valid"] & writes_contents)),
        ]
        return SimpleNamespace(blocks=blocks, whole=whole, writes=writes, row=last["row"], data=reducer.result,
                               strobe=Mux(last["error"], 0, last["strobe"]), error=last["error"])

    def _stages(self, m, enable, values):
        """Registers that accompany a beat through the reduction unit, one set per pipeline stage."""
        stages = []
        for number in range(reducer_latency(self.cfg)):
            after = {name: Signal(value.shape(), name=f"stage_{number}_{name}", reset_less=name != "valid")
                     for name, value in values.items()}
            with m.If(enable):
                m.d.sync += [register.eq(values[name]) for name, register in after.items()]
            stages.append(after)
            values = after
        return stages
