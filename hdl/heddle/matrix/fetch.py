"""The fetch of B: operations in, words and steps out."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..config import BANK_BYTES, BANKS
from ..datapath.gates import select_one_hot
from ..datapath.layouts import step_layout
from ..layouts import (
    SHARED_READ_LATENCY,
    BankReadPort,
    ErrorStream,
    matrix_operation_layout,
)
from .address import ColumnAddress
from .layouts import word_request_layout
from .walk import ColumnWalk

__all__ = ["Fetch"]


class Fetch(Component):
    """Reads the words of B of one operation after the other and presents them to the lanes.

    ``step`` goes to the lanes in the cycle in which the data come from the bank, ``word`` in the next. The lanes take
    every step at once, so that no queue is needed behind the banks; a queue of words has its place between ``word`` and
    the lanes when they come to hold words back.

    From an operation at ``i`` to its first step: 9 cycles, and the waits for the offsets and the bank. One step a
    cycle, also from operation to operation (see ``ColumnWalk``); a bank that is not granted holds the walk. Reset
    forgets all operations.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i : In(stream.Signature(matrix_operation_layout(cfg)))
    stop : In(1)
    offset_read, offset_number, offset_grant, offset_load, offset
        See ``LaneArray``.
    bank : Out(BankReadPort(cfg))
        Never asks for more than one bank.
    step : Out(step_layout(cfg))
    word : Out(signed(9)).array(dot)
        Elements of B, extended by their signedness.
    pending : Out(1)
        Steps may still come for operations that were taken, the one at ``step`` not counted.
    conflict : Out(1)
        Combinational: a bank is asked for and not granted.
    o_error : Out(ErrorStream())
    """

    def __init__(self, cfg):
        self.cfg = cfg
        operation = matrix_operation_layout(cfg)
        super().__init__({
            "i": In(stream.Signature(operation)),
            "stop": In(1),
            "offset_read": Out(1),
            "offset_number": Out(operation["offset_register"].shape),
            "offset_grant": In(1),
            "offset_load": Out(1),
            "offset": In(32).array(cfg.threads),
            "bank": Out(BankReadPort(cfg)),
            "step": Out(step_layout(cfg)),
            "word": Out(signed(9)).array(cfg.dot),
            "pending": Out(1),
            "conflict": Out(1),
            "o_error": Out(ErrorStream()),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.walk = walk = ColumnWalk(self.cfg)
        m.submodules.address = address = ColumnAddress(self.cfg)
        advance = Signal()
        request = address.o
        connect(m, flipped(self.i), walk.i)
        connect(m, flipped(self.o_error), address.o_error)
        m.d.comb += [
            walk.stop.eq(self.stop),
            self.offset_read.eq(walk.offset_read),
            self.offset_number.eq(walk.offset_number),
            walk.offset_grant.eq(self.offset_grant),
            self.offset_load.eq(walk.offset_load),
            walk.advance.eq(advance),
            address.advance.eq(advance),
            address.valid.eq(walk.valid),
            address.i.eq(walk.o),
            self.bank.request.eq(request.bank),
            self.conflict.eq(request.step.step & ~(self.bank.grant & request.bank).any()),
            advance.eq(~self.conflict),
        ]
        m.d.comb += [element.eq(offset) for element, offset in zip(address.offset, self.offset)]
        m.d.comb += [row.eq(request.row) for row in self.bank.row]
        m.d.comb += self.pending.eq(walk.pending | address.pending | request.step.step | self._read(m, request))
        return m

    def _read(self, m, request):
        """Wait for the data of a granted request, select the word; returns whether a request is on its way."""
        waiting = []
        stage = request
        for cycle in range(1, SHARED_READ_LATENCY + 1):
            following = Signal(word_request_layout(self.cfg), name=f"request_{cycle}")
            m.d.sync += following.eq(stage)
            if cycle == 1:
                with m.If(self.conflict):
                    m.d.sync += [following.step.step.eq(0), following.step.last.eq(0)]
            waiting.append(following.step.step)
            previous, stage = stage, following
        # The bank and the chunk are decoded a cycle ahead, so that the selection starts at registers.
        chunks = BANK_BYTES // self.cfg.dot
        controls = []
        for bank in range(BANKS):
            for chunk in range(chunks):
                control = Signal(name=f"select_{bank}_{chunk}", reset_less=True)
                m.d.sync += control.eq(previous.bank[bank] & (previous.chunk == chunk))
                controls.append(control)
        data = [word.word_select(chunk, 8 * self.cfg.dot) for word in self.bank.data for chunk in range(chunks)]
        word = select_one_hot(controls, data)
        for index, element in enumerate(self.word):
            byte = word.word_select(index, 8)
            extended = Signal(signed(9), name=f"word_{index}", reset_less=True)
            m.d.sync += extended.eq(Cat(byte, stage.b_signed & byte[7]).as_signed())
            m.d.comb += element.eq(extended)
        m.d.comb += self.step.eq(stage.step)
        return Cat(waiting[:-1]).any()
