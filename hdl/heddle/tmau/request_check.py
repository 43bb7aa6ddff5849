"""Request check of block copies: validates operations and routes them."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import exact_log2

from ..interfaces.layouts import CopyKind, copy_operation_layout, error_layout
from ..interfaces.reductions import lacks_reduction, reducible_formats, reduction_members, undefined_reduction
from ..interfaces.swizzle import swizzle_field, swizzles
from ..isa.encoding import Reduction, Space, Swizzle
from ..isa.error_codes import ErrorCode
from ..isa.tensor_descriptor import FLOAT_FORMATS
from ..lib.onehot import any_of, is_one_of, select_one_hot
from ..parameters.tmau import TmauParameters
from .layouts import BLOCK_BITS, move_layout, transfer_layout

__all__ = ["RequestCheck"]


class _Checked(NamedTuple):
    """The operation being checked."""

    fields: data.View
    first: Signal               # shared address; within a memory the destination
    second: Signal              # global address; within a memory the source
    ranges: dict[str, Signal]   # checks of the addresses; ``some``: there are blocks
    within: Signal              # the copy is within a memory
    prefetches: Signal


class RequestCheck(Component):
    """Request check of block copies: validates one operation and routes it to the loads, the stores or the local DMA [S1.4].

    The checks are made in this order; the first that fails is reported, and the operation is dropped:

    1. UNSUPPORTED, operand = field value. ``kind``: neither COPY_BLOCK nor, with ``cfg.prefetches``, PREFETCH_BLOCK.
       ``source_space``: equal to ``destination_space`` without ``cfg.copy_within``. ``swizzle``: not in ``swizzles(cfg)``, or any within
       a memory. ``reduction``: any without ``cfg.reductions`` or of a load.
    2. TENSOR_REDUCTION, operand = ``reduction``: not defined for the format. UNSUPPORTED: of a float without ``cfg.reduction_floats``,
       or within shared memory.
    3. No blocks: the operation completes at once, without an error [S1.12].
    4. MISALIGNED, operand = address: shared address, then global address, no multiple of 16. Within a memory: destination, then source.
    5. OUT_OF_RANGE for the first, then for the second address. Operand = the address if it lies outside, else the first address beyond
       the memory (low 32 bits).

    Address arithmetic does not wrap: a row of ``copy_rows`` whose address exceeds 32 bits is out of range. A prefetch has no space,
    shared address, swizzle or reduction. Of a prefetch larger than the L2 the first ``cfg.prefetched_blocks`` blocks are transferred.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_operation : In(stream.Signature(copy_operation_layout))
        Operations.
    o_load : Out(stream.Signature(transfer_layout(cfg)))
        Checked loads and prefetches. Combinational from registers.
    o_store : Out(stream.Signature(transfer_layout(cfg)))
        Checked stores. Combinational from registers.
    o_move : Out(stream.Signature(move_layout(cfg)))
        Checked copies within a memory. Only with ``cfg.copy_within``.
    o_failure : Out(stream.Signature(error_layout))
        Error of an operation; held until accepted.
    stop : In(1)
        Drop operations without an error.
    completed : Out(1)
        An operation ends here in this cycle: it failed, has no blocks, or was dropped.
    busy : Out(1)
        An operation is being checked.

    *Latency*: 1 cycle from ``i_operation`` to the outputs.

    *Throughput*: one operation per cycle.

    *Back-pressure*: ``i_operation.ready`` depends combinationally on ``stop`` and on ``ready`` of the selected output, but not of
    ``o_failure``: the next operation is accepted a cycle after an error.

    *Reset*: drops the operation being checked.

    *Source*: [S1.4, S1.12], docs/units/tmau.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i_operation": In(stream.Signature(copy_operation_layout)),
            "o_load": Out(stream.Signature(transfer_layout(cfg))),
            "o_store": Out(stream.Signature(transfer_layout(cfg))),
            "o_failure": Out(stream.Signature(error_layout)),
            "stop": In(1),
            "completed": Out(1),
            "busy": Out(1),
        } | ({"o_move": Out(stream.Signature(move_layout(cfg)))} if cfg.copy_within else {}))

    def elaborate(self, platform):
        m = Module()
        valid = Signal()
        operation = Signal(copy_operation_layout, reset_less=True)
        is_load, is_move, prefetches = (Signal(name=name) for name in ("is_load", "is_move", "prefetches"))
        m.d.comb += [signal.eq(value) for signal, value in zip((is_load, is_move, prefetches), self._kinds(operation), strict=True)]
        checked = _Checked(operation, *self._addresses(m), is_move, prefetches)
        failed = self._verdict(m, checked)

        ways = [(self.o_load, is_load), (self.o_store, ~is_load & ~is_move)]
        if self.cfg.copy_within:
            ways.append((self.o_move, is_move))
            self._move(m, self.o_move.payload, checked)
        self._act(m, valid, failed, checked.ranges["some"], ways)
        m.d.comb += self.busy.eq(valid)
        for transfers in (self.o_load, self.o_store):
            self._transfer(m, transfers.payload, checked)
        with m.If(self.i_operation.ready):
            m.d.sync += operation.eq(self.i_operation.payload)
        return m

    def _act(self, m, valid, failed, some, ways):
        """Report the error of the operation, pass it on, or drop it."""
        decided = [(self.o_failure, failed), *((port, some & ~failed & way) for port, way in ways)]
        leaves, nothing = Signal(), Signal(name="moves_nothing")
        reported = Signal()
        chosen = [Signal(name=name) for name in ("fails", "loads", "stores", "copies_within")[:len(decided)]]
        # An operation that fails leaves a cycle after its error: ``ready`` of errors is late in the cycle.
        m.d.comb += [
            leaves.eq(self.stop | nothing | any_of(way & port.ready for way, (port, _) in zip(chosen[1:], decided[1:], strict=True))),
            reported.eq(chosen[0] & self.o_failure.ready & ~self.stop),
        ]
        outcomes = [(nothing, ~some & ~failed), *((way, condition) for way, (_, condition) in zip(chosen, decided, strict=True))]
        m.d.comb += [outcome.eq(valid & condition) for outcome, condition in outcomes]
        m.d.comb += [port.valid.eq(way & ~self.stop) for way, (port, _) in zip(chosen, decided, strict=True)]
        m.d.comb += [
            self.i_operation.ready.eq(~valid | leaves),
            self.completed.eq((valid & (self.stop | nothing)) | reported),
        ]
        with m.If(self.i_operation.ready):
            m.d.sync += valid.eq(self.i_operation.valid)
        with m.Elif(reported):
            m.d.sync += valid.eq(0)

    def _kinds(self, operation):
        """Whether an operation is a load or prefetch, a copy within a memory, a prefetch; constants for absent kinds."""
        prefetches = operation.kind == CopyKind.PREFETCH_BLOCK if self.cfg.prefetches else Const(0)
        within = (operation.source_space == operation.destination_space) & ~prefetches if self.cfg.copy_within else Const(0)
        return ((operation.destination_space == Space.SHARED) & ~within) | prefetches, within, prefetches

    def _addresses(self, m):
        """First and second address of the incoming operation: shared and global, or destination and source within a memory.

        The checks that need an adder are registered with the addresses.
        """
        operation = self.i_operation.payload
        load, within, prefetches = self._kinds(operation)
        in_shared = within & (operation.source_space == Space.SHARED)
        first, second, outside = Signal(32), Signal(32), {"first": Signal(), "second": Signal()}
        m.d.comb += [
            first.eq(Mux(load | within, operation.destination, operation.source)),
            second.eq(Mux(load | within, operation.source, operation.destination)),
            outside["first"].eq(Mux(load | within, operation.destination_outside, operation.source_outside)),
            outside["second"].eq(Mux(load | within, operation.source_outside, operation.destination_outside)),
        ]
        conditions = {"some": operation.blocks.any()}
        for name, address, is_global in (("first", first, within & ~in_shared), ("second", second, ~in_shared)):
            start, end = self._ranges(address, operation.blocks, is_global, of_shared=name == "first")
            counts = ~prefetches if name == "first" else Const(1)
            conditions |= {f"{name}_start": (start | outside[name]) & counts, f"{name}_end": end & counts}
        flags = {name: Signal(name=f"range_{name}", reset_less=True) for name in conditions}
        kept = [Signal(32, name=f"{name}_address", reset_less=True) for name in ("first", "second")]
        with m.If(self.i_operation.ready):
            m.d.sync += [flags[name].eq(condition) for name, condition in conditions.items()]
            m.d.sync += [kept[0].eq(first), kept[1].eq(second)]
        return *kept, flags

    def _ranges(self, address, blocks, is_global, of_shared):
        """Whether an address lies outside its memory, and whether the blocks extend beyond the memory."""
        shared_bits, global_bits = self.cfg.shared_address_bits, self.cfg.axi_address_bits
        low = blocks[:shared_bits - BLOCK_BITS + 1]
        in_shared = (address[shared_bits:].any(), (blocks[len(low):].any() | (address[BLOCK_BITS:shared_bits] + low
                                                                           > 1 << (shared_bits - BLOCK_BITS))))
        # More blocks than shared memory holds fail its own check, so the low bits suffice if shared memory is involved.
        wide = self.cfg.prefetches or self.cfg.copy_within
        in_global = (address[global_bits:].any(),
                     address[BLOCK_BITS:global_bits] + (blocks if wide else low) > 1 << (global_bits - BLOCK_BITS))
        if self.cfg.copy_within:
            return tuple(Mux(is_global, *pair) for pair in zip(in_global, in_shared, strict=True))
        return in_shared if of_shared else in_global

    def _unsupported(self, m):
        """Whether the operation is unsupported, whether its reduction is undefined, and the value of the offending field.

        Found for the incoming operation and registered with it.
        """
        cfg, operation = self.cfg, self.i_operation.payload
        _, within, prefetches = self._kinds(operation)
        unsupported, undefined = Signal(), Signal(name="undefined")
        field = Signal(max(len(operation[name].as_value()) for name in ("kind", "source_space", "swizzle", "reduction")))
        swizzled = operation.swizzle != Swizzle.NONE
        into_shared = operation.destination_space == Space.SHARED
        reduction = operation.reduction
        loads = into_shared & ~within
        lacks = reduction != Reduction.NONE
        if cfg.reductions:
            of_float = is_one_of(operation.format, FLOAT_FORMATS)
            lacks = lacks & (loads | into_shared & of_float) | lacks_reduction(reduction, operation.format, reducible_formats(cfg))
        m.d.comb += unsupported.eq(1)
        with m.If((operation.kind != CopyKind.COPY_BLOCK) & ~prefetches):
            m.d.comb += field.eq(operation.kind)
        with m.Elif(prefetches):
            m.d.comb += unsupported.eq(0)
        with m.Elif(0 if cfg.copy_within else operation.source_space == operation.destination_space):
            m.d.comb += field.eq(operation.source_space)
        with m.Elif((swizzled & within) | ~Cat(operation.swizzle == mode for mode in (Swizzle.NONE, *swizzles(cfg))).any()):
            m.d.comb += field.eq(operation.swizzle)
        with m.Else():
            m.d.comb += [field.eq(reduction), unsupported.eq(lacks | undefined)]
            if cfg.reductions:      # of a load every reduction is unsupported
                m.d.comb += undefined.eq(undefined_reduction(m, reduction, operation.format) & ~loads)
        found = unsupported, undefined, field
        kept = [Signal.like(value, name=f"kept_{value.name}", reset_less=True) for value in found]
        with m.If(self.i_operation.ready):
            m.d.sync += [register.eq(value) for register, value in zip(kept, found, strict=True)]
        return kept

    def _verdict(self, m, checked):
        """Error of the operation on ``o_failure``; returns whether the operation failed."""
        operation, first, second, ranges, within, prefetches = checked
        unsupported, undefined, field = self._unsupported(m)
        causes, rest, some = [], ~unsupported & ranges["some"], ranges["some"]       # one-hot: first failed check
        for condition in (first[:BLOCK_BITS].any() & ~prefetches, second[:BLOCK_BITS].any(), *(
                ranges[name] for name in ("first_start", "first_end", "second_start", "second_end"))):
            causes.append(rest & condition)
            rest = rest & ~condition
        failed, misaligned, of_first, of_second = (Signal(name=name) for name in ("failed", "misaligned", "of_first", "of_second"))
        m.d.comb += [
            failed.eq(unsupported | (some & ~rest)),
            misaligned.eq(causes[0] | causes[1]), of_first.eq(causes[0] | causes[2]), of_second.eq(causes[1] | causes[4]),
        ]
        error = self.o_failure.payload
        of_global, of_shared = Const((1 << self.cfg.axi_address_bits) & 0xFFFFFFFF, 32), Const(self.cfg.shared_bytes, 32)
        in_shared = within & (operation.source_space == Space.SHARED)
        m.d.comb += [
            error.pc.eq(operation.pc),
            error.code.eq(Mux(undefined, ErrorCode.TENSOR_REDUCTION, Mux(unsupported, ErrorCode.UNSUPPORTED, Mux(
                misaligned, ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE)))),
            error.operand.eq(select_one_hot(
                (unsupported, of_first, of_second, causes[3], causes[5]),
                (field, first, second, Mux(within & ~in_shared, of_global, of_shared), Mux(in_shared, of_shared, of_global)))),
        ]
        return failed

    def _transfer(self, m, transfer, checked):
        """Fields of a load, a store or a prefetch."""
        operation, prefetches = checked.fields, checked.prefetches
        m.d.comb += [
            transfer.global_block.eq(checked.second[BLOCK_BITS:]),
            transfer.shared_block.eq(checked.first[BLOCK_BITS:]),
            transfer.blocks.eq(self._transferred(operation.blocks, prefetches)),
            transfer.barrier.eq(operation.barrier),
            transfer.has_barrier.eq(operation.has_barrier & ~prefetches),
            transfer.swizzle.eq(swizzle_field(self.cfg, operation.swizzle)),
            transfer.pc.eq(operation.pc),
            *(Value.cast(transfer[name]).eq(Value.cast(operation[name])) for name in reduction_members(self.cfg)),
        ]
        if self.cfg.prefetches:
            m.d.comb += transfer.prefetch.eq(prefetches)
        if self.cfg.multicast:
            m.d.comb += transfer.mask.eq(operation.mask)

    def _transferred(self, blocks, prefetches):
        """Blocks of a transfer: a prefetch has at most the blocks that the L2 holds."""
        if not self.cfg.prefetches:
            return blocks
        most = self.cfg.prefetched_blocks
        return Mux(prefetches & blocks[exact_log2(most):].any(), most, blocks)

    def _move(self, m, move, checked):
        """Fields of a copy within a memory."""
        operation = checked.fields
        m.d.comb += [
            move.in_shared.eq(operation.source_space == Space.SHARED),
            move.destination_block.eq(checked.first[BLOCK_BITS:]), move.source_block.eq(checked.second[BLOCK_BITS:]),
            *(Value.cast(move[name]).eq(Value.cast(operation[name]))
              for name in ("blocks", "barrier", "has_barrier", "pc", *reduction_members(self.cfg))),
        ]
