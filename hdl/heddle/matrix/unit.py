"""The matrix unit."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..constants import BANKS
from ..datapath.pe_array import PEArray, engine_members
from ..interfaces.layouts import BankReadPort, ErrorStream, RegisterPort, matrix_operation_layout
from ..lib.members import connect_members
from ..lib.stream import Queue, link
from .b_fetch import BFetch

__all__ = ["MatrixUnit"]

PIPELINE_OPERATIONS = 32        # more than the stages behind the queue can hold, each in a stage of its own


class MatrixUnit(Component):
    """Executes ``mm`` and holds the registers of all threads [S0.1-S0.7, S0.9, S0.11].

    For each active column n, ascending, and each k-slice s, in the order given: one step, in which every lane t of the
    lane mask adds the dot product of its factor word ``factor_word + s`` and ``dot`` bytes of shared memory to product
    register ``product + n``, modulo 2^32. With ``zero``, slice 0 replaces instead. Elements are signed or unsigned per
    operand. Merges share rows and dot products among neighbouring lanes: docs/units/matrix.md.

    One step a cycle, without a gap between operations of three and more steps that are queued in time; steps of merges
    take the cycles that their words need. With the queue empty, a register is updated ``queue latency + 16 +
    log2(dot)`` cycles after its operation is accepted, three more with ``fetch_slots`` above 1. ``i_operation`` is held
    back when ``matrix_queue`` operations wait. ``done`` pulses when the last sum is in the register file: a read
    granted in that cycle sees it.

    Errors: PRODUCT_RANGE (once per operation, its other columns go on), MISALIGNED, OUT_OF_RANGE (the rest of the
    operation is dropped); see ``GroupAddress``. While ``stop`` is high the operation under way ends early and queued
    ones are discarded, each with its ``done``. Reset empties the unit and keeps the registers.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i_operation : In(stream.Signature(matrix_operation_layout(cfg)))
    registers : In(RegisterPort(cfg))
        The thread unit's access to the lanes.
    bank : Out(BankReadPort(cfg))
    bank_ahead : Out(BANKS)
        With ``cfg.banks_known_ahead``: see ``BFetch``.
    hold : In(1)
        With ``issue_ahead``: no word of B is read and no step begins.
    stop : In(1)
    o_error : Out(ErrorStream())
    engine_active, engine_step, engine_word, engine_take : In
        With ``cfg.rnn``: see ``PEArray``.
    done : Out(1)
    busy : Out(1)
        Operations are queued or under way; from the cycle after acceptance to the cycle of the last ``done``.
    active : Out(1)
        An operation has left the queue and is not done.
    event_matrix_steps : Out(1)
        A step entered the lanes.
    event_matrix_blocks : Out
        Blocks of 16 bytes that were read in a cycle, 0 to 8.
    event_matrix_bank_conflicts : Out(1)
        Words waited for their banks.
    event_matrix_bubbles : Out(1)
        Neither a step nor a word entered the lanes, between steps of operations that followed each other.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__(({"hold": In(1)} if cfg.issue_ahead else {}) | {
            "i_operation": In(stream.Signature(matrix_operation_layout(cfg))),
            "registers": In(RegisterPort(cfg)),
            "bank": Out(BankReadPort(cfg)),
            "stop": In(1),
            "o_error": Out(ErrorStream()),
            "done": Out(1),
            "busy": Out(1),
            "active": Out(1),
            "event_matrix_steps": Out(1),
            "event_matrix_blocks": Out(range(BANKS + 1)),
            "event_matrix_bank_conflicts": Out(1),
            "event_matrix_bubbles": Out(1),
            **(engine_members(cfg) if cfg.rnn else {}),
            **({"bank_ahead": Out(BANKS)} if cfg.banks_known_ahead else {}),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(matrix_operation_layout(self.cfg), self.cfg.matrix_queue)
        m.submodules.fetch = fetch = BFetch(self.cfg)
        m.submodules.lanes = lanes = PEArray(self.cfg)
        link(m, self.i_operation, queue.i)
        link(m, queue.o, fetch.i)
        connect(m, flipped(self.bank), fetch.bank)
        connect(m, flipped(self.o_error), fetch.o_error)
        connect(m, flipped(self.registers), lanes.registers)
        m.d.comb += fetch.stop.eq(self.stop)
        connect_members(m, fetch, lanes, ("offset_read", "offset_number", "offset_grant", "offset_load", "step"))
        m.d.comb += [
            fetch.pause.eq((lanes.pause | self.hold) if self.cfg.issue_ahead else lanes.pause),
            self.done.eq(lanes.done),
        ]
        connect_members(m, fetch, lanes, ("offset", "take", "word"))
        if self.cfg.rnn:
            self._engine(m, lanes)
        if self.cfg.banks_known_ahead:
            m.d.comb += self.bank_ahead.eq(fetch.bank_ahead)
        self._state(m, queue)
        self._events(m, fetch)
        return m

    def _engine(self, m, lanes):
        connect_members(m, flipped(self), lanes, ("engine_active", "engine_step", "engine_take", "engine_word"))

    def _state(self, m, queue):
        unfinished = Signal(range(self.cfg.matrix_queue + PIPELINE_OPERATIONS))
        accepted = self.i_operation.valid & self.i_operation.ready
        with m.If(accepted & ~self.done):
            m.d.sync += unfinished.eq(unfinished + 1)
        with m.If(self.done & ~accepted):
            m.d.sync += unfinished.eq(unfinished - 1)
        m.d.comb += [self.busy.eq(unfinished != 0), self.active.eq(unfinished != queue.level)]

    def _events(self, m, fetch):
        conflict = Signal()
        blocks = Signal(range(BANKS + 1))
        bubble = Signal()
        started = Signal()          # a step has entered the lanes since the fetch was last idle
        m.d.sync += [
            conflict.eq(fetch.conflict),
            blocks.eq(sum(fetch.bank.request[bank] & fetch.bank.grant[bank] & ~fetch.pause for bank in range(BANKS))),
            bubble.eq(started & fetch.pending & ~fetch.step.step & ~fetch.arrival),
            started.eq(fetch.pending & (started | fetch.step.step)),
        ]
        m.d.comb += [
            self.event_matrix_steps.eq(fetch.step.step),
            self.event_matrix_blocks.eq(blocks),
            self.event_matrix_bank_conflicts.eq(conflict),
            self.event_matrix_bubbles.eq(bubble),
        ]
