"""Core: front end, execution units, TMAU and shared memory."""

from typing import NamedTuple

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from .front_end.unit import FrontEnd
from .interfaces.control import EventPort, ProgramPort, ReasonPort, RunPort, UniformStream
from .interfaces.front_end import TilePort
from .interfaces.layouts import ErrorStream, GlobalPort
from .interfaces.program import program_write_layout
from .isa.counter_table import COUNTERS
from .lib.members import connect_members, leaves
from .matrix.unit import MatrixUnit
from .memory.barriers import Barriers
from .memory.global_arbiter import GlobalArbiter
from .memory.shared_memory import SharedMemory
from .rnn.recurrent_engine import RecurrentEngine
from .sparse.sparse_engine import SparseEngine
from .thread.unit import ThreadUnit
from .tmau.layouts import multicast_beat_layout
from .tmau.row_expander import RowExpander
from .tmau.unit import Tmau

__all__ = ["Core", "CORE_EVENTS", "error_sources"]

CORE_EVENTS = tuple(name for name in COUNTERS if not name.startswith(("read_", "write_", "level2_")))


def error_sources(cfg):
    """Units of a core that report errors, by name."""
    return ("thread", "matrix", "copy", "front", *["sparse"] * cfg.sparse)


class _Units(NamedTuple):
    """Units of a core."""

    front: FrontEnd
    thread: ThreadUnit
    matrix: MatrixUnit
    copy: Tmau
    rows: RowExpander
    barriers: Barriers
    engine: RecurrentEngine | None
    sparse: SparseEngine | None

    @property
    def engines(self):
        """Each engine that the configuration has, and whether it is busy."""
        recurrent = [(self.engine, self.engine.run.busy)] if self.engine else []
        return recurrent + ([(self.sparse, self.sparse.busy)] if self.sparse else [])


class Core(Component):
    """Core: executes one program with its SIMD lanes, matrix unit, TMAU and, with ``cfg.rnn`` and ``cfg.sparse``, recurrent and
    sparse engine on its own shared memory.

    The bank arbiters grant reads in the order matrix unit, thread unit, TMAU, recurrent engine, sparse engine. Writes are granted in the
    order TMAU, thread unit, recurrent engine, sparse engine; with ``cfg.shared_writes`` 1 the thread unit precedes the TMAU. Thread unit
    and TMAU share the global port round robin.

    Parameters
    ----------
    cfg : Config

    *Ports*:
    core : In(cfg.core_bits)
        Number of the core; constant.
    i_program : In(stream.Signature(program_write_layout(cfg), always_ready=True))
        Writes of the instruction memory by the host, while no program runs.
    i_uniform : In(UniformStream())
        Writes of uniform registers by the host, while no program runs.
    program : In(ProgramPort(cfg))
        First instruction and end of the program.
    run : In(RunPort())
        Start, stop and end of a run.
    wait_timeout : In(32)
        Limit of a wait instruction in cycles, 0 for none. Only with ``cfg.wait_timeout``.
    tiles : Out(TilePort())
        Numbers of tiles. Only with several cores.
    o_multicast : Out(stream.Signature(multicast_beat_layout(cfg)))
        Beats of multicast loads for other cores. Only with ``cfg.multicast``.
    i_multicast : In(stream.Signature(multicast_beat_layout(cfg)))
        Beats of multicast loads of other cores. Only with ``cfg.multicast``.
    multicast_pending : In(1)
        A multicast beat of this core is pending in the network. Only with ``cfg.multicast``.
    settled : Out(1)
        The core sends no further multicast beat: its program has ended or waits at a barrier. Only with ``cfg.multicast``.
    peers_settled : In(1)
        All other cores are ``settled``. Only with ``cfg.multicast``.
    o_error : Out(ErrorStream()).array(len(error_sources(cfg)))
        Errors of the units, in the order of ``error_sources``.
    global_port : Out(GlobalPort(cfg, cfg.axi_id_bits))
        Port to global memory; the client number is the top bit of the tag.
    addressed : In(1)
        A read or write address is valid on the AXI port of this core.
    events : Out(EventPort(CORE_EVENTS))
        Events for the performance counters; the events of AXI master and L2 are not among them.
    reasons : Out(ReasonPort())
        Reasons of the cycle breakdown.

    *Latency*: with ``cfg.far_registers`` ``start`` and ``stop`` reach the thread unit, the TMAU and the barriers one cycle later than
    the front end. ``stop`` reaches the matrix unit two cycles later. Errors of the front end and the busy states are then registered.

    *Throughput*: at most one instruction a cycle, with ``cfg.front_end_slices`` one in two cycles. An ``mm`` without merges takes one
    step a cycle.

    *Back-pressure*: ``o_error`` has none. ``i_program`` is always accepted.

    *Reset*: no program runs, all queues are empty. The program and the contents of shared memory stay as they are.

    *Errors*: the errors of the units, each with program counter and operand.

    *Source*: docs/architecture.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "core": In(cfg.core_bits),
            "i_program": In(stream.Signature(program_write_layout(cfg), always_ready=True)),
            "i_uniform": In(UniformStream()), "program": In(ProgramPort(cfg)), "run": In(RunPort()),
            **({"wait_timeout": In(32)} if cfg.wait_timeout else {}),
            **({"tiles": Out(TilePort())} if cfg.tile_scheduler else {}),
            **({"o_multicast": Out(stream.Signature(multicast_beat_layout(cfg))),
                "i_multicast": In(stream.Signature(multicast_beat_layout(cfg))), "multicast_pending": In(1),
                "settled": Out(1), "peers_settled": In(1)} if cfg.multicast else {}),
            "o_error": Out(ErrorStream()).array(len(error_sources(cfg))),
            "global_port": Out(GlobalPort(cfg, cfg.axi_id_bits)),
            "addressed": In(1),
            "events": Out(EventPort(CORE_EVENTS)), "reasons": Out(ReasonPort()),
        })

    def elaborate(self, platform):
        m = Module()
        cfg = self.cfg
        m.submodules.front_end = front = FrontEnd(cfg)
        m.submodules.thread_unit = thread = ThreadUnit(cfg)
        m.submodules.matrix_unit = matrix = MatrixUnit(cfg)
        m.submodules.tmau = copy = Tmau(cfg)
        m.submodules.rows = rows = RowExpander()
        m.submodules.barriers = barriers = Barriers(cfg)
        m.submodules.shared_memory = shared = SharedMemory(cfg, readers=3 + cfg.rnn + cfg.sparse,
                                                              writers=2 + cfg.rnn + cfg.sparse)
        m.submodules.arbiter = arbiter = GlobalArbiter(cfg)

        connect(m, flipped(self.i_program), front.i_program)
        for source, unit in ((front.o_thread, thread), (front.o_matrix, matrix)):
            connect(m, source, unit.i_operation)
        connect(m, front.o_copy, rows.i)
        self._sizes(m, rows, copy, barriers)
        if cfg.tensors:
            connect(m, front.o_tensor, copy.i_tensor)
            groups = front.groups
            m.d.comb += [
                copy.invalidate.eq(front.o_invalidate.valid), copy.invalidate_address.eq(front.o_invalidate.payload),
                copy.clear.eq(self.run.start), copy.commit.eq(groups.commit), groups.rows_busy.eq(rows.busy),
                groups.pending.eq(copy.groups_pending), groups.unread.eq(copy.groups_unread),
            ]
        sparse = None
        if cfg.sparse:
            m.submodules.sparse_engine = sparse = SparseEngine(cfg)
            connect(m, front.sparse, sparse.run)
        for source, sink in zip((thread, matrix, copy, front, *[sparse] * cfg.sparse), self.o_error, strict=True):
            if source is front and cfg.far_registers:
                m.d.sync += [sink.valid.eq(source.o_error.valid), sink.payload.eq(source.o_error.payload)]
            else:
                connect(m, source.o_error, flipped(sink))
        engine = self._recurrent(m, front, matrix) if cfg.rnn else None
        if cfg.rnn:
            self._lend(m, thread, matrix, engine, sparse)
        else:
            connect(m, thread.registers, matrix.registers)
        if cfg.gather_offsets:
            connect(m, matrix.offset_write, thread.offset_write)
        of_sparse, of_engine = ([sparse] if sparse else []), ([engine] if engine else [])
        readers = (matrix.bank, *(unit.bank_read for unit in (thread, copy, *of_engine, *of_sparse)))
        for requester, port in zip(readers, shared.read, strict=True):
            connect(m, requester, port)
        # The AXI bus should not wait for threads. With one write bus, however, TMAU first would block threads for a whole copy.
        writers = (copy.bank_write, thread.bank_write) if cfg.shared_writes > 1 else (thread.bank_write, copy.bank_write)
        for requester, port in zip((*writers, *(unit.bank_write for unit in (*of_engine, *of_sparse))), shared.write, strict=True):
            connect(m, requester, port)
        for client, port in zip((thread.global_port, copy.global_port), arbiter.i_client, strict=True):
            connect(m, client, port)
        connect(m, arbiter.o, flipped(self.global_port))
        connect(m, copy.o_arrival, barriers.arrive)
        connect(m, front.barriers, barriers.issue)

        units = _Units(front, thread, matrix, copy, rows, barriers, engine, sparse)
        self._control(m, units)
        self._observe(m, units)
        if cfg.tensors:
            self._copy_start(m, copy)
        return m

    def _recurrent(self, m, front, matrix):
        """The recurrent engine, which reads its sums through the register port."""
        m.submodules.recurrent_engine = engine = RecurrentEngine(self.cfg)
        connect(m, front.recurrent, engine.run)
        m.d.comb += [engine.stop.eq(self.run.stop),
                     *(value.eq(read) for value, read in zip(engine.sums.data, matrix.registers.read_data, strict=True))]
        return engine

    def _lend(self, m, thread, matrix, engine, sparse):
        """PE array and register port belong to the engine that is busy, else to the matrix and the thread unit."""
        sums, lanes = engine.sums, matrix.registers
        borrowers = [(engine.run.busy, {"read": sums.enable, "read_number": sums.register, "read_group": sums.group,
                                        "read_tap": sums.tap})]
        steps = [engine.pe]
        if sparse:
            own = sparse.registers.signature.members
            borrowers.append((sparse.busy, {name: getattr(sparse.registers, name) for name in own if own[name].flow == Out}))
            steps.append(sparse.pe)
            connect(m, sparse.reads, matrix.sparse_reads)
            connect(m, sparse.samples, matrix.samples)
            m.d.comb += [sparse.stop.eq(self.run.stop), *(
                inner.eq(outer) for name in own if own[name].flow == In
                for inner, outer in zip(leaves(getattr(sparse.registers, name)), leaves(getattr(lanes, name)), strict=True))]
        m.d.comb += matrix.engine_active.eq(Cat(busy for busy, _ in borrowers).any())
        for name in matrix.engine.signature.members:
            of_first, *of_others = (leaves(getattr(pe, name)) for pe in steps)
            for target, value, *others in zip(leaves(getattr(matrix.engine, name)), of_first, *of_others, strict=True):
                m.d.comb += target.eq(Mux(sparse.busy, others[0], value) if others else value)
        for name, member in lanes.signature.members.items():
            of_thread, of_lanes = leaves(getattr(thread.registers, name)), leaves(getattr(lanes, name))
            if member.flow == Out:      # direction seen from the lanes: an output of the lanes
                m.d.comb += [thread_side.eq(lane_side) for thread_side, lane_side in zip(of_thread, of_lanes, strict=True)]
                continue
            for busy, of_engine in borrowers:
                if name in of_engine:
                    of_thread = [Mux(busy, value, other) for value, other in zip(leaves(of_engine[name]), of_thread, strict=True)]
            m.d.comb += [lane_side.eq(thread_side) for thread_side, lane_side in zip(of_thread, of_lanes, strict=True)]

    def _sizes(self, m, rows, copy, barriers):
        """Operations of the TMAU, and their sizes for the barriers, one cycle later.

        In a cycle with the size of a box no row is accepted: ``valid`` may fall while a row waits, which the TMAU tolerates.
        """
        operation, taken = rows.o.payload, Signal(name="row_taken")
        tensor = copy.o_sized if self.cfg.tensors else None
        allowed = ~tensor.valid if tensor else Const(1)
        m.d.comb += [
            copy.i_operation.payload.eq(operation), copy.i_operation.valid.eq(rows.o.valid & allowed),
            rows.o.ready.eq(copy.i_operation.ready & allowed),
            taken.eq(rows.o.valid & rows.o.ready & operation.has_barrier & (operation.mask == 0)),
        ]
        m.d.sync += [
            barriers.sized.valid.eq(taken), barriers.sized.barrier.eq(operation.barrier),
            barriers.sized.blocks.eq(operation.blocks), barriers.sized.ends.eq(rows.last),
        ]
        if tensor:
            with m.If(tensor.valid):
                m.d.sync += [
                    barriers.sized.valid.eq(1), barriers.sized.barrier.eq(tensor.barrier),
                    barriers.sized.blocks.eq(tensor.blocks), barriers.sized.ends.eq(1),
                ]

    def _control(self, m, units):
        """Starts and stops the units; tells the front end what they have completed, and the barriers what the front end issues."""
        front, thread, matrix, copy, rows, barriers, *_ = units
        copying = copy.busy | rows.busy | (self.multicast_pending if self.cfg.multicast else 0)
        start, stop, pending = self.run.start, self.run.stop, thread.writes_pending
        matrix_stop = stop
        if self.cfg.far_registers:
            # ``start`` precedes the first instruction. The registered busy states have no gap: a store that is not yet pending is
            # covered by the busy thread unit, and a copy is included from its acceptance on.
            start, stop = Signal(name="start_units"), Signal(name="stop_units")
            m.d.sync += [start.eq(self.run.start), stop.eq(self.run.stop)]
            # The matrix unit may stop later than the other units and resume equally later: a run does not end while the unit is busy,
            # and the first ``mm`` of the next run is issued several cycles after ``start``.
            matrix_stop = Signal(name="stop_matrix")
            m.d.sync += matrix_stop.eq(stop)
            pending = Signal(name="stores_pending")
            m.d.sync += pending.eq(thread.writes_pending | thread.busy)
            taken = (front.o_copy.valid & front.o_copy.ready) | (front.o_tensor.valid & front.o_tensor.ready if self.cfg.tensors else 0)
            before, copying = copying | taken, Signal(name="copying")
            m.d.sync += copying.eq(before)
        connect_members(m, flipped(self), front, ("core", "program", "i_uniform", *["wait_timeout"] * self.cfg.wait_timeout,
                                                *["tiles"] * self.cfg.tile_scheduler))
        connect(m, thread.masks, front.masks)
        if self.cfg.multicast:
            connect(m, copy.o_multicast, flipped(self.o_multicast))
            connect(m, flipped(self.i_multicast), copy.i_multicast)
            m.d.comb += [self.settled.eq(front.settled), front.peers_settled.eq(self.peers_settled)]
        m.d.comb += [
            front.start.eq(self.run.start), front.stop.eq(self.run.stop), matrix.hold.eq(front.matrix_hold),
            thread.start.eq(start), thread.stop.eq(stop), matrix.stop.eq(matrix_stop), copy.stop.eq(stop), rows.stop.eq(stop),
            front.units.thread_done.eq(thread.done), front.units.matrix_done.eq(matrix.done),
            front.units.thread_busy.eq(thread.busy), front.units.matrix_busy.eq(matrix.busy), front.units.copy_busy.eq(copying),
            front.units.writes_pending.eq(pending),
            barriers.clear.eq(start),
            self.run.ended.eq(front.ended), self.run.pc.eq(front.pc),
            self.run.idle.eq(~Cat(front.active, thread.busy, thread.writes_pending, matrix.busy, copying,
                                  *(busy for _, busy in units.engines)).any() & front.scoreboard_empty),
        ]

    def _observe(self, m, units):
        """Events and reasons of the units for the performance counters."""
        front, thread, matrix, copy, *_ = units
        for unit in (front, thread, matrix, copy, *(engine for engine, _ in units.engines)):
            connect_members(m, unit.events, flipped(self.events), unit.events.signature.members)
        m.d.comb += [
            self.events.matrix_instructions.eq(matrix.done), self.events.thread_instructions.eq(thread.done),
            self.reasons.matrix.eq(Cat(matrix.events.matrix_steps, *(engine.pe.step.step for engine, _ in units.engines)).any()),
            self.reasons.matrix_wait.eq(Cat(matrix.active, *(busy for _, busy in units.engines)).any()),
            self.reasons.copy_wait.eq(front.waiting.copy), self.reasons.thread.eq(front.waiting.thread),
            self.reasons.drain.eq(front.ended),
        ]

    def _copy_start(self, m, copy):
        """Count from the first operation of an idle TMAU to its first AXI address, or to its end if it needs none."""
        starting, worked = Signal(), Signal()
        m.d.sync += [
            worked.eq(copy.busy),
            starting.eq(Mux(worked, starting & ~self.addressed, copy.busy | (copy.i_operation.valid & copy.i_operation.ready))),
        ]
        m.d.comb += self.events.copy_start_cycles.eq(starting)
