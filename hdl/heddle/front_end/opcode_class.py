"""Classes of opcodes that the stages in front of issue decode."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Value

from ..interfaces.layouts import ThreadKind
from ..isa.encoding import Opcode

__all__ = ["WAITS", "OpcodeClass", "one_of", "opcode_class", "thread_kinds"]

_THREAD_KINDS = {
    Opcode.THREAD_ALU: ThreadKind.ALU, Opcode.THREAD_COMPARE: ThreadKind.COMPARE, Opcode.LANE_MASK: ThreadKind.LANE_MASK,
    Opcode.LOAD: ThreadKind.LOAD, Opcode.STORE: ThreadKind.STORE, Opcode.THREAD_SPECIAL: ThreadKind.TID,
}
WAITS = (Opcode.WAIT, Opcode.BARRIER_WAIT, Opcode.COMMIT_GROUP, Opcode.WAIT_GROUP, Opcode.WAIT_SPARSE)
_UNIFORM_WRITERS = (Opcode.UNIFORM_ALU, Opcode.UNIFORM_SPECIAL, Opcode.SEGMENT)


def thread_kinds(cfg):
    """The ``ThreadKind`` of each opcode of the thread unit; a ``gather`` is a load."""
    return _THREAD_KINDS | ({Opcode.GATHER: ThreadKind.LOAD} if cfg.gather_offsets else {})


def one_of(opcode, members):
    """Whether ``opcode`` is one of ``members``; combinational."""
    return Cat(opcode == member for member in members).any()


class OpcodeClass(NamedTuple):
    """Classes of one instruction, as expressions; what the configuration lacks is constant."""

    for_thread: Value       # an operation of the thread unit
    for_matrix: Value       # ``mm`` or ``offsets``
    single: Value           # a copy of one row of blocks, or such a prefetch where prefetches have an effect
    many: Value             # a copy of many rows
    tensor: Value           # a copy of a tensor, or such a prefetch
    multicast: Value        # a copy with a mask
    alone: Value            # a tensor copy that reads all its registers at once: of rank 1, to one core
    takes_tile: Value       # ``take_tile``
    writes_uniform: Value   # writes a uniform register or a segment

    @property
    def single_beat(self):
        """All registers are read at once."""
        return ~self._copies() | self.alone

    def at_once(self, opcode):
        """The instruction, of this ``opcode``, leaves issue in one cycle."""
        return ~(self.for_thread | self.for_matrix | self._copies() | self.takes_tile
                 | one_of(opcode, (*WAITS, Opcode.RECURRENT, Opcode.SPARSE)))

    def _copies(self):
        return self.single | self.many | self.tensor


def opcode_class(cfg, word):
    """The ``OpcodeClass`` of the instruction ``word``; combinational."""
    opcode, fields = word.opcode, word.modifiers.copy
    tensor = one_of(opcode, (Opcode.COPY_TENSOR, *[Opcode.PREFETCH_TENSOR] * cfg.prefetches)) if cfg.tensors else Const(0)
    alone = tensor & (fields.rank_minus_one == 0)
    takes_tile = one_of(opcode, [Opcode.TAKE_TILE] * cfg.tile_scheduler)
    return OpcodeClass(
        for_thread=one_of(opcode, thread_kinds(cfg)),
        for_matrix=one_of(opcode, (Opcode.MATRIX, *[Opcode.OFFSETS] * (cfg.compiled_offsets > 0))),
        single=one_of(opcode, (Opcode.COPY_BLOCK, *[Opcode.PREFETCH_BLOCK] * cfg.prefetches)),
        many=opcode == Opcode.COPY_ROWS, tensor=tensor,
        multicast=(fields.multicast & one_of(opcode, (Opcode.COPY_BLOCK, Opcode.COPY_TENSOR))) if cfg.multicast else Const(0),
        alone=alone & ~fields.multicast if cfg.multicast else alone, takes_tile=takes_tile,
        writes_uniform=one_of(opcode, _UNIFORM_WRITERS) | takes_tile)
