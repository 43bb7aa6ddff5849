"""Copy dispatch: offers copies of blocks, rows and tensors to the TMAU."""

from amaranth import *
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from ..interfaces.front_end import BarrierOpenPort
from ..interfaces.layouts import CopyKind, row_operation_layout
from ..interfaces.tensor_operation import tensor_operation_layout
from ..isa.encoding import Opcode, Reduction, Space
from ..parameters.front_end import FrontEndParameters
from .decode import decoded_layout

__all__ = ["CopyDispatch"]


class CopyDispatch(Component):
    """Copy dispatch: offers the copy at issue to its unit. Guards are uniform and registers were read before: no scoreboard is needed.

    Copies do not pass a pending operation, nor an ``mm`` that awaits loads of its factors. So a program may conclude from an issued store
    that earlier reads of memory are over. From an issued ``mm`` it may conclude that the loads of the factors are over.

    Parameters
    ----------
    cfg : FrontEndParameters

    *Ports*:
    instruction : In(decoded_layout(cfg))
        Instruction at issue.
    execute : In(1)
        The instruction is valid and legal, and a program runs.
    guarded : In(1)
        Its uniform guard holds.
    guarded_before : In(1)
        ``guarded`` of the cycle before. Copies of blocks and rows use it: at least two beats precede their valid.
    blocked : In(1)
        A thread or matrix operation is pending, or an ``mm`` awaits loads of its factors.
    o_copy : Out(stream.Signature(row_operation_layout))
        Copies of blocks and of rows.
    o_tensor : Out(stream.Signature(tensor_operation_layout()))
        Copies of tensors; only with ``tensors``.
    o_invalidate : Out(stream.Signature(32, always_ready=True))
        With ``tensors``: addresses of tensor descriptors to be invalidated.
    opened : Out(BarrierOpenPort())
        A copy that moves data is dispatched and reports to a barrier. A multicast instead reports to the barriers of the cores that
        it goes to.
    leaves : Out(1)
        The instruction is a copy and leaves: its unit takes the copy, or the guard does not hold. Not qualified by ``execute``.
    stalls : Out(1)
        The copy waits for its unit.
    bad_mask : Out(1)
        The copy is a multicast without a legal mask. It is not offered.

    *Latency*: combinational.

    *Throughput*: one copy a cycle.

    *Back-pressure*: ``leaves`` is combinational from ``o_copy.ready`` and ``o_tensor.ready``.

    *Reset*: no state.
    """

    def __init__(self, cfg):
        self.cfg = cfg = FrontEndParameters.of(cfg)
        super().__init__({
            "instruction": In(decoded_layout(cfg)), "execute": In(1), "guarded": In(1), "guarded_before": In(1), "blocked": In(1),
            "o_copy": Out(stream.Signature(row_operation_layout)),
            **({"o_tensor": Out(stream.Signature(tensor_operation_layout())),
                "o_invalidate": Out(stream.Signature(32, always_ready=True))} if cfg.tensors else {}),
            "opened": Out(BarrierOpenPort()), "leaves": Out(1), "stalls": Out(1), "bad_mask": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        instruction, word = self.instruction, self.instruction.word
        refused = instruction.multicast & instruction.bad_mask if self.cfg.multicast else Const(0)
        self._offered = self.execute & ~self.blocked & ~refused
        m.d.comb += self.opened.barrier.eq(word.modifiers.copy.barrier)
        leaves, stalls = [self._copy(m, instruction, word)], [self.o_copy.valid & ~self.o_copy.ready]
        if self.cfg.tensors:
            leaves.append(self._tensor(m, instruction, word))
            stalls.append(self.o_tensor.valid & ~self.o_tensor.ready)
        copies = instruction.for_copy | instruction.for_tensor if self.cfg.tensors else instruction.for_copy
        m.d.comb += [self.leaves.eq(Cat(leaves).any()), self.stalls.eq(Cat(stalls).any()),
                     self.bad_mask.eq(self.execute & copies & refused & self.guarded)]
        return m

    def _copy(self, m, instruction, word):
        """Copies of blocks and rows. Returns whether the instruction is one and leaves."""
        operation, first, fields = self.o_copy.payload, self.o_copy.payload.first, word.modifiers.copy
        m.d.comb += [
            self.o_copy.valid.eq(self._offered & instruction.for_copy & self.guarded_before),
            first.destination_space.eq(fields.destination), first.source_space.eq(fields.source),
            first.destination.eq(instruction.destination), first.source.eq(instruction.a_value),
            first.blocks.eq(instruction.b_value), first.swizzle.eq(fields.swizzle), first.reduction.eq(fields.reduction),
            first.barrier.eq(fields.barrier), first.has_barrier.eq(fields.has_barrier), first.pc.eq(instruction.pc),
            first.format.eq(fields.format.as_value()), operation.rows.eq(instruction.rows),
            operation.destination_pitch.eq(instruction.destination_pitch), operation.source_pitch.eq(instruction.source_pitch),
        ]
        if self.cfg.multicast:
            with m.If(instruction.multicast):
                m.d.comb += first.mask.eq(instruction.mask)
        if self.cfg.prefetches:
            with m.If(word.opcode == Opcode.PREFETCH_BLOCK):
                m.d.comb += [first.kind.eq(CopyKind.PREFETCH_BLOCK), first.has_barrier.eq(0)]
        self._opens(m, self.o_copy, first, instruction.rows.any())
        return instruction.for_copy & (~self.guarded_before | (self.o_copy.ready & ~self.blocked))

    def _tensor(self, m, instruction, word):
        """Copies of tensors. Their uniform registers are in the fields of a copy of rows and in ``coordinates`` and ``offsets``."""
        request, fields = self.o_tensor.payload.request, word.modifiers.copy
        coordinates = (instruction.b_value, instruction.rows, instruction.source_pitch, *instruction.coordinates)
        offsets = (instruction.destination_pitch, *instruction.offsets)
        m.d.comb += [
            self.o_tensor.valid.eq(self._offered & instruction.for_tensor & self.guarded),
            self.o_tensor.payload.address.eq(instruction.a_value), request.shared_address.eq(instruction.destination),
            *(place.eq(value) for place, value in zip(request.coordinates, coordinates, strict=True)),
            *(place.eq(value) for place, value in zip(request.offsets, offsets, strict=True)),
            request.mode.eq(fields.mode), request.rank_minus_one.eq(fields.rank_minus_one),
            request.store.eq(fields.destination == Space.GLOBAL), request.reduction.eq(fields.reduction),
            request.barrier.eq(fields.barrier), request.has_barrier.eq(fields.has_barrier), request.pc.eq(instruction.pc),
            self.o_invalidate.valid.eq(self.execute & instruction.invalidates & self.guarded),
            self.o_invalidate.payload.eq(instruction.a_value),
        ]
        if self.cfg.multicast:
            with m.If(instruction.multicast):
                m.d.comb += request.mask.eq(instruction.mask)
        if self.cfg.prefetches:     # its only modifiers are mode and rank
            with m.If(word.opcode == Opcode.PREFETCH_TENSOR):
                m.d.comb += [request.prefetch.eq(1), request.store.eq(0), request.reduction.eq(Reduction.NONE), request.has_barrier.eq(0)]
        self._opens(m, self.o_tensor, request, 1)
        return instruction.for_tensor & (~self.guarded | (self.o_tensor.ready & ~self.blocked))

    def _opens(self, m, port, request, moves):
        """Reports a dispatched copy that moves data to its barrier."""
        alone = ~self.instruction.multicast if self.cfg.multicast else 1
        with m.If(port.valid & port.ready & request.has_barrier & moves & alone):
            m.d.comb += self.opened.valid.eq(1)
