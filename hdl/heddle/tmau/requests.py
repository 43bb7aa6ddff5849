"""Front end of the copy unit: takes operations, checks them, and sends them on as transfers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out

from ..constants import BANK_BYTES
from ..datapath.gates import select_one_hot
from ..errors import ErrorCode
from ..isa.layout import Reduction, Space, Swizzle
from ..layouts import PC_BITS, CopyKind, copy_operation_layout, error_layout
from .swizzle import swizzle_bits, swizzle_field, swizzles

__all__ = ["RequestCheck", "transfer_layout"]

BLOCK_BITS = BANK_BYTES.bit_length() - 1        # log2 of the bytes of a block


def transfer_layout(cfg):
    """A checked copy: addresses and size in blocks of 16 bytes, at least one block, all of them in their memories."""
    return data.StructLayout({
        "global_block": cfg.axi_address_bits - BLOCK_BITS,
        "shared_block": cfg.shared_address_bits - BLOCK_BITS,
        "blocks": cfg.shared_address_bits - BLOCK_BITS + 1,
        "barrier": 4,
        "has_barrier": 1,
        "swizzle": swizzle_bits(cfg),
        "pc": PC_BITS,
    })


class RequestCheck(Component):
    """Checks one copy operation a cycle and sends it to the loads or to the stores.

    The checks, in this order; the first that fails is reported and drops the operation [S1.4, docs/units/tmau.md]:

    1. UNSUPPORTED, operand = field value: ``kind``, ``source_space`` (when it equals ``destination_space``), ``swizzle``
       (one that is not among ``swizzles(cfg)``), ``reduction``.
    2. No blocks: the operation completes at once [S1.12].
    3. MISALIGNED, operand = address: shared address, global address (multiples of 16 bytes).
    4. OUT_OF_RANGE for shared memory, then for global memory: operand = the address when it lies outside, else the first address
       behind the memory (as 32 bits).

    Latency 1 cycle, throughput one operation a cycle while its stream takes it. While ``stop`` is high operations are dropped without
    an error. Reset drops the operation that is being checked.

    Parameters
    ----------
    cfg : Config

    Members
    -------
    i_operation : In(stream.Signature(copy_operation_layout))
    o_load, o_store : Out(stream.Signature(transfer_layout(cfg)))
        Combinational from registers.
    o_failure : Out(stream.Signature(error_layout))
        Held until accepted.
    stop : In(1)
    completed : Out(1)
        An operation ended here: it failed, moves nothing, or was dropped.
    busy : Out(1)
    """

    def __init__(self, cfg):
        self.cfg = cfg
        super().__init__({
            "i_operation": In(stream.Signature(copy_operation_layout)),
            "o_load": Out(stream.Signature(transfer_layout(cfg))),
            "o_store": Out(stream.Signature(transfer_layout(cfg))),
            "o_failure": Out(stream.Signature(error_layout)),
            "stop": In(1),
            "completed": Out(1),
            "busy": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        valid = Signal()
        operation = Signal(copy_operation_layout, reset_less=True)
        is_load = Signal()
        shared, global_, ranges = self._addresses(m)
        m.d.comb += is_load.eq(operation.destination_space == Space.SHARED)
        failed = self._verdict(m, operation, shared, global_, ranges)

        moves = ranges["some"] & ~failed & ~self.stop
        sent = Signal()
        taken = Signal()
        m.d.comb += [
            self.o_load.valid.eq(valid & moves & is_load),
            self.o_store.valid.eq(valid & moves & ~is_load),
            self.o_failure.valid.eq(valid & failed & ~self.stop),
            sent.eq(Mux(is_load, self.o_load.ready, self.o_store.ready)),
            taken.eq(valid & Mux(self.stop, 1, Mux(failed, self.o_failure.ready, ~ranges["some"] | sent))),
            self.completed.eq(taken & ~moves),
            self.busy.eq(valid),
            self.i_operation.ready.eq(~valid | taken),
        ]
        for transfers in (self.o_load, self.o_store):
            self._transfer(m, transfers.payload, operation, shared, global_)
        with m.If(self.i_operation.ready):
            m.d.sync += [valid.eq(self.i_operation.valid), operation.eq(self.i_operation.payload)]
        return m

    def _addresses(self, m):
        """The addresses of the operation that comes in, by memory, and checks that need an adder, in registers beside it."""
        shared_bits, global_bits = self.cfg.shared_address_bits, self.cfg.axi_address_bits
        operation = self.i_operation.payload
        load = operation.destination_space == Space.SHARED
        shared, global_ = Signal(32), Signal(32)
        m.d.comb += [
            shared.eq(Mux(load, operation.destination, operation.source)),
            global_.eq(Mux(load, operation.source, operation.destination)),
        ]
        blocks = operation.blocks[:shared_bits - BLOCK_BITS + 1]
        conditions = {
            "some": operation.blocks.any(),
            "shared_start": shared[shared_bits:].any(),
            "shared_end": (operation.blocks[len(blocks):].any()
                           | (shared[BLOCK_BITS:shared_bits] + blocks > 1 << (shared_bits - BLOCK_BITS))),
            "global_start": global_[global_bits:].any(),
            # More blocks than shared memory holds fail before: the low bits are enough.
            "global_end": global_[BLOCK_BITS:global_bits] + blocks > 1 << (global_bits - BLOCK_BITS),
        }
        flags = {name: Signal(name=f"range_{name}", reset_less=True) for name in conditions}
        kept = [Signal(32, name=f"{name}_address", reset_less=True) for name in ("shared", "global")]
        with m.If(self.i_operation.ready):
            m.d.sync += [flags[name].eq(condition) for name, condition in conditions.items()]
            m.d.sync += [kept[0].eq(shared), kept[1].eq(global_)]
        return *kept, flags

    def _verdict(self, m, operation, shared, global_, ranges):
        """The error of the operation on ``o_failure``; returns whether there is one."""
        unsupported, some = Signal(), ranges["some"]
        field = Signal(max(len(operation[name].as_value()) for name in ("kind", "source_space", "swizzle", "reduction")))
        m.d.comb += unsupported.eq(1)
        with m.If(operation.kind != CopyKind.COPY_BLOCK):
            m.d.comb += field.eq(operation.kind)
        with m.Elif(operation.source_space == operation.destination_space):
            m.d.comb += field.eq(operation.source_space)
        with m.Elif(~Cat(operation.swizzle == mode for mode in (Swizzle.NONE, *swizzles(self.cfg))).any()):
            m.d.comb += field.eq(operation.swizzle)
        with m.Else():
            m.d.comb += [field.eq(operation.reduction), unsupported.eq(operation.reduction != Reduction.NONE)]

        first, rest = [], ~unsupported & some       # one-hot: the first check that fails
        for condition in (shared[:BLOCK_BITS].any(), global_[:BLOCK_BITS].any(), *(
                ranges[name] for name in ("shared_start", "shared_end", "global_start", "global_end"))):
            first.append(rest & condition)
            rest = rest & ~condition
        failed, misaligned, of_shared, of_global = (Signal(name=name) for name in ("failed", "misaligned", "of_shared", "of_global"))
        m.d.comb += [
            failed.eq(unsupported | (some & ~rest)),
            misaligned.eq(first[0] | first[1]), of_shared.eq(first[0] | first[2]), of_global.eq(first[1] | first[4]),
        ]
        error = self.o_failure.payload
        m.d.comb += [
            error.pc.eq(operation.pc),
            error.code.eq(Mux(unsupported, ErrorCode.UNSUPPORTED, Mux(misaligned, ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE))),
            error.operand.eq(select_one_hot(
                (unsupported, of_shared, of_global, first[3], first[5]),
                (field, shared, global_, Const(self.cfg.shared_bytes, 32), Const((1 << self.cfg.axi_address_bits) & 0xFFFFFFFF, 32)))),
        ]
        return failed

    def _transfer(self, m, transfer, operation, shared, global_):
        m.d.comb += [
            transfer.global_block.eq(global_[BLOCK_BITS:]),
            transfer.shared_block.eq(shared[BLOCK_BITS:]),
            transfer.blocks.eq(operation.blocks),
            transfer.barrier.eq(operation.barrier),
            transfer.has_barrier.eq(operation.has_barrier),
            transfer.swizzle.eq(swizzle_field(self.cfg, operation.swizzle)),
            transfer.pc.eq(operation.pc),
        ]
