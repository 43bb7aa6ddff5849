"""Tensor memory access unit (TMAU): request check, request and burst generators, load and store engines."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..constants import BANKS, STORE_GROUPS
from ..interfaces.control import EventPort
from ..interfaces.layouts import (
    CopyKind,
    ErrorStream,
    GlobalPort,
    SharedReadPort,
    SharedWritePort,
    barrier_arrival_layout,
    barrier_blocks_signature,
    copy_operation_layout,
    error_layout,
)
from ..interfaces.tensor_operation import tensor_operation_layout
from ..isa.counter_table import TMAU_EVENTS
from ..isa.encoding import Space
from ..lib.members import connect_members
from ..lib.onehot import any_of
from ..lib.register_slice import RegisterSlice
from ..lib.round_robin import RoundRobinArbiter
from ..lib.stream import Queue, link
from ..parameters.tmau import TmauParameters
from .barrier_updates import BarrierUpdates
from .burst_generator import BurstGenerator
from .descriptor_read_port import DescriptorReadPort
from .layouts import burst_layout, multicast_beat_layout, transfer_layout, units_per_beat
from .load_engine import WRITE_CYCLES, LoadEngine
from .local_dma import LocalDma
from .request_check import RequestCheck
from .store_engine import READ_CYCLES, StoreEngine
from .store_groups import StoreGroups
from .tensor_copies import TensorCopies

__all__ = ["Tmau"]

COMPLETED_BITS = 10     # bits of the count of operations without a pulse on ``done``


class Tmau(Component):
    """Tensor memory access unit (TMAU): copies blocks of 16 bytes and boxes of tensors between global and shared memory,
    asynchronously.

    Data path::

        i_operation ─ request check ─┬─ queue ─ burst generator ─ load engine ──> shared memory, barriers
                                     └─ queue ─ burst generator ─ store engine ─> global memory, barriers

    Loads and stores proceed concurrently, each in the order of issue. Up to ``cfg.axi_reads`` read bursts and ``cfg.axi_writes`` write
    bursts are outstanding. With ``cfg.tensors`` a request generator adds the bursts of ``i_tensor``; with ``cfg.copy_within`` local DMA
    channels copy within a memory. A barrier is updated with the bytes of each beat of a load when its write is acknowledged. Of a store
    it is updated with each burst, when all words of the burst came from shared memory.

    Parameters
    ----------
    cfg : TmauParameters

    *Ports*:
    i_operation : In(stream.Signature(copy_operation_layout))
        Block copies and prefetches. ``cfg.copy_queue`` operations can wait in each direction.
    bank_read : Out(SharedReadPort(cfg))
        Reads of shared memory.
    bank_write : Out(SharedWritePort(cfg))
        Writes of shared memory.
    global_port : Out(GlobalPort(cfg, cfg.tag_bits))
        Reads and writes of global memory.
    o_arrival : Out(stream.Signature(barrier_arrival_layout, always_ready=True))
        Barrier updates.
    o_error : Out(ErrorStream())
        Errors, at most one per cycle. Registered.
    done : Out(1)
        High for one cycle per operation that completed, failed or was discarded; loads and stores in no order. Registered.
    busy : Out(1)
        An accepted operation has a pending ``done``, barrier update, error or burst.
    stop : In(1)
        Discard waiting operations and the rest of the operations in progress, each with its ``done``; outstanding bursts are completed.
    i_tensor : In(stream.Signature(tensor_operation_layout()))
        Tensor copies. Only with ``cfg.tensors``.
    invalidate : In(1)
        Invalidate the descriptor at ``invalidate_address``. Only with ``cfg.tensors``.
    invalidate_address : In(32)
        Byte address of a descriptor. Only with ``cfg.tensors``.
    o_sized : Out(barrier_blocks_signature())
        1 cycle after a box of this core with a barrier begins: its size in blocks of 16 bytes. Only with ``cfg.tensors``.
    clear : In(1)
        Reset the store groups at the start of a run. Only with ``cfg.tensors``.
    commit : In(1)
        End a store group; only while ``groups_pending`` is below ``STORE_GROUPS``. Only with ``cfg.tensors``.
    groups_pending : Out(range(STORE_GROUPS + 1))
        Store groups that memory has not acknowledged. Only with ``cfg.tensors``.
    groups_unread : Out(range(STORE_GROUPS + 1))
        Store groups not yet read from shared memory. Only with ``cfg.tensors``.
    o_multicast : Out(stream.Signature(multicast_beat_layout(cfg)))
        Beats of multicast loads for the cores in their mask. Only with ``cfg.multicast``.
    i_multicast : In(stream.Signature(multicast_beat_layout(cfg)))
        Beats of multicast loads for this core. Only with ``cfg.multicast``.
    events : Out(EventPort(TMAU_EVENTS))
        ``copy_bank_conflicts``: in the cycle before, a port of shared memory was not ready, as a request waited for its banks.

    *Latency*: ``request_latency`` (5) cycles from ``i_operation`` to the first read request, for ``cfg.copy_queue`` of at least 3; one
    less with ``cfg.tensors``. From ``i_tensor`` rank + 3 cycles on a descriptor hit, one more with interleave. ``write_latency`` (3)
    cycles from a beat to its write request. Each register slice of the wiring adds one cycle.

    *Throughput*: one beat of ``cfg.axi_bytes`` per cycle in each direction, without bubbles between bursts and operations, while both
    memories are ready. One operation per cycle.

    *Back-pressure*: ``global_port.read_data.ready`` depends combinationally on ``bank_write.request.ready``, with a register slice on
    registers only. ``i_operation.ready`` depends on registers and ``stop``. ``i_tensor.ready`` also depends on its payload.

    *Register slices*: ``cfg.tmau_slices`` of them before the load engine, and as many behind the read requests of the store engine.

    *Reset*: drops all operations; both memories must be reset in the same cycle.

    *Errors*: errors of ``RequestCheck`` and of the tensor rules, before any data are moved. AXI_READ for each beat and AXI_WRITE for
    each burst that memory answers with an error, operand = byte address of the burst. A beat with an error is not written but counted
    at its barrier.

    *Source*: [S1.1, S1.12, S1.13], docs/units/tmau.md.
    """

    def __init__(self, cfg):
        self.cfg = cfg = TmauParameters.of(cfg)
        super().__init__({
            "i_operation": In(stream.Signature(copy_operation_layout)),
            "bank_read": Out(SharedReadPort(cfg)),
            "bank_write": Out(SharedWritePort(cfg)),
            "global_port": Out(GlobalPort(cfg, cfg.tag_bits)),
            "o_arrival": Out(stream.Signature(barrier_arrival_layout, always_ready=True)),
            "o_error": Out(ErrorStream()),
            "done": Out(1),
            "busy": Out(1),
            "stop": In(1),
            "events": Out(EventPort(TMAU_EVENTS)),
        } | ({
            "i_tensor": In(stream.Signature(tensor_operation_layout())), "invalidate": In(1), "invalidate_address": In(32),
            "o_sized": Out(barrier_blocks_signature()), "clear": In(1), "commit": In(1),
            "groups_pending": Out(range(STORE_GROUPS + 1)), "groups_unread": Out(range(STORE_GROUPS + 1)),
        } if cfg.tensors else {}) | ({
            "o_multicast": Out(stream.Signature(multicast_beat_layout(cfg))),
            "i_multicast": In(stream.Signature(multicast_beat_layout(cfg))),
        } if cfg.multicast else {}))

    @property
    def request_latency(self):
        """Cycles from an operation to its first read request, when nothing waits."""
        return 5 - self.cfg.tensors

    @property
    def read_latency(self):
        """Cycles from a store to its first read request at shared memory, when nothing waits."""
        return 4 + READ_CYCLES + self.cfg.tmau_slices

    @property
    def write_latency(self):
        """Cycles from a beat of read data to its write request, when nothing waits."""
        return WRITE_CYCLES + self.cfg.tmau_slices

    def elaborate(self, platform):
        m = Module()
        m.submodules.check = check = RequestCheck(self.cfg)
        m.submodules.load = load = LoadEngine(self.cfg)
        m.submodules.store = store = StoreEngine(self.cfg)
        m.submodules.arrivals = arrivals = BarrierUpdates(self.cfg)
        link(m, self.i_operation, check.i_operation)
        tensors = self._tensors(m) if self.cfg.tensors else None
        load_discarded, load_waiting = self._direction(m, "load", check.o_load, load.i_burst, tensors and tensors.o_load)
        store_discarded, store_waiting = self._direction(m, "store", check.o_store, store.i_burst, tensors and tensors.o_store)
        dma = self._memories(m, load, store, arrivals)
        if dma is not None:
            link(m, check.o_move, dma.i)
        self._reads(m, load, tensors)
        if self.cfg.tensors:
            self._groups(m, store)
        if self.cfg.multicast:
            connect(m, load.o_multicast, flipped(self.o_multicast))
            connect(m, flipped(self.i_multicast), load.i_multicast)
        link(m, arrivals.o, self.o_arrival)
        m.d.comb += check.stop.eq(self.stop)
        m.d.sync += self.events.copy_bank_conflicts.eq(~self.bank_read.request.ready | ~self.bank_write.request.ready)
        self._errors(m, load.o_failure, store.o_failure, check.o_failure, *([tensors.o_failure] if tensors else []),
                     *([dma.o_failure] if dma else []), *([load.o_multicast_failure] if self.cfg.multicast else []))
        with_errors = Cat(check.completed, *(tensors.dropped if tensors else []))
        ended = Signal.like(with_errors, name="check_ended")        # a cycle later: errors are accepted late in the cycle
        m.d.sync += ended.eq(with_errors)
        counting = ended.any() | self._count(m, *ended, load_discarded, store_discarded, load.completed, store.completed.any(),
                                             *([load.prefetched] if self.cfg.prefetches else []), *(dma.completed if dma else []))
        m.d.comb += self.busy.eq(check.busy | load_waiting | store_waiting | load.busy | store.busy | arrivals.busy
                                 | self.o_error.valid | counting | (tensors.busy if tensors else 0) | (dma.busy if dma else 0))
        return m

    def _tensors(self, m):
        m.submodules.tensors = tensors = TensorCopies(self.cfg)
        link(m, self.i_tensor, tensors.i_operation)
        connect(m, tensors.o_sized, flipped(self.o_sized))
        connect_members(m, flipped(self), tensors, ("invalidate", "invalidate_address", "stop"))
        return tensors

    def _memories(self, m, load, store, arrivals):
        """Memory ports and barrier updates of the engines: direct, or shared with the local DMA, which is returned."""
        ports, dma, moved = (flipped(self.bank_read), flipped(self.bank_write), flipped(self.global_port)), None, store.o_moved
        if self.cfg.copy_within:
            m.submodules.dma = dma = LocalDma(self.cfg)
            for inner, outer in zip((dma.o_bank_read, dma.o_bank_write, dma.o_global_port), ports, strict=True):
                connect(m, inner, outer)
            ports = dma.bank_read, dma.bank_write, dma.global_port
            m.d.comb += [
                dma.stop.eq(self.stop), arrivals.i_store.valid.eq(moved.valid | dma.o_moved.valid),
                arrivals.i_store.payload.eq(Mux(moved.valid, moved.payload, dma.o_moved.payload)),
                moved.ready.eq(arrivals.i_store.ready), dma.o_moved.ready.eq(arrivals.i_store.ready & ~moved.valid),
            ]
        else:
            link(m, moved, arrivals.i_store)
        bank_read, bank_write, self._port = ports
        connect(m, load.bank_write, bank_write)
        self._shared_read(m, store.bank_read, bank_read)
        for name in ("write_request", "write_data", "write_response"):
            connect(m, getattr(store, name), getattr(self._port, name))
        link(m, load.o_moved, arrivals.i_load)
        return dma

    def _shared_read(self, m, inner, outer):
        """Connect the read port of the store engine, with the register slices of its requests."""
        rows = 1 if units_per_beat(self.cfg) == 1 else BANKS        # a beat in one bank has one row
        layout = data.StructLayout({"bank": BANKS, "row": data.ArrayLayout(self.cfg.row_bits, rows)})
        requests = inner.request
        for number in range(self.cfg.tmau_slices):
            m.submodules[f"read_slice_{number}"] = slice_ = RegisterSlice(layout)
            self._request(m, requests, slice_.i)
            requests = slice_.o
        self._request(m, requests, outer.request)
        link(m, outer.answer, inner.answer)

    @staticmethod
    def _request(m, source, sink):
        """Connect two streams of read requests, of which ``source`` may have one row for all banks."""
        lines = len(source.payload.row)
        m.d.comb += [
            sink.valid.eq(source.valid), source.ready.eq(sink.ready), sink.payload.bank.eq(source.payload.bank),
            *(row.eq(source.payload.row[bank % lines]) for bank, row in enumerate(sink.payload.row)),
        ]

    def _reads(self, m, load, tensors):
        """Read port of the load engine behind its register slices, shared with the descriptor cache if present."""
        beats = self._port.read_data
        for number in range(self.cfg.tmau_slices):      # in distributed RAM: a slice is as wide as the bus
            m.submodules[f"data_slice_{number}"] = slice_ = Queue(beats.payload.shape(), 2, registered=False)
            link(m, beats, slice_.i)
            beats = slice_.o
        if tensors is None:
            link(m, load.read_request, self._port.read_request)
            link(m, beats, load.read_data)
            return
        m.submodules.reads = reads = DescriptorReadPort(self.cfg)
        link(m, load.read_request, reads.i_copy)
        link(m, reads.o_copy, load.read_data)
        link(m, tensors.read_request, reads.i_descriptor)
        link(m, reads.o_descriptor, tensors.read_data)
        link(m, reads.o_request, self._port.read_request)
        link(m, beats, reads.i_data)

    def _groups(self, m, store):
        """Store groups: stores of zero blocks are not counted; a store that fails ends the program."""
        m.submodules.groups = groups = StoreGroups()
        operation, request = self.i_operation.payload, self.i_tensor.payload.request
        stores_blocks = ((operation.kind == CopyKind.COPY_BLOCK) & (operation.source_space == Space.SHARED)
                         & (operation.destination_space == Space.GLOBAL) & operation.blocks.any())
        m.d.comb += [
            groups.issued.eq(Cat(self.i_operation.valid & self.i_operation.ready & stores_blocks,
                                 self.i_tensor.valid & self.i_tensor.ready & request.store)),
            groups.read.eq(store.read), groups.done.eq(store.completed), groups.commit.eq(self.commit), groups.clear.eq(self.clear),
            self.groups_pending.eq(groups.pending), self.groups_unread.eq(groups.unread),
        ]

    def _direction(self, m, name, transfers, bursts, of_tensors):
        """Queue and burst generator of one direction; returns its ``discarded`` and whether any operation waits."""
        m.submodules[f"{name}_queue"] = queue = Queue(transfer_layout(self.cfg), self.cfg.copy_queue)
        m.submodules[f"{name}_generator"] = generator = BurstGenerator(self.cfg)
        link(m, transfers, queue.i)
        link(m, queue.o, generator.i)
        if of_tensors is None:
            link(m, generator.o, bursts)
        else:
            # Bursts of both kinds may be interleaved: the transaction table counts the ends of transfers in the order of their bursts.
            m.submodules[f"{name}_merge"] = merge = RoundRobinArbiter(burst_layout(self.cfg), 2, locked=False)
            link(m, generator.o, merge.i[0])
            link(m, of_tensors, merge.i[1])
            link(m, merge.o, bursts)
        m.d.comb += generator.stop.eq(self.stop)
        return generator.discarded, (queue.level != 0) | generator.busy

    def _errors(self, m, *failures):
        """One error per cycle, the first valid of ``failures``; errors of loads have no back-pressure.

        One register per source, zero unless granted, joined by OR.
        """
        kept, others = [], Const(0)
        for number, failure in enumerate(failures):
            if failure is not failures[0]:
                m.d.comb += failure.ready.eq(~others)
            kept.append(Signal(error_layout, name=f"error_{number}", reset_less=True))
            m.d.sync += kept[-1].eq(failure.payload)
            with m.If(~failure.valid | others):
                m.d.sync += kept[-1].eq(0)
            others = others | failure.valid
        m.d.sync += self.o_error.valid.eq(others)
        m.d.comb += self.o_error.payload.eq(any_of(error.as_value() for error in kept))

    def _count(self, m, *pulses):
        """Serialise the concurrent ``pulses`` into pulses of ``done``."""
        waiting, some = Signal(COMPLETED_BITS), Signal()        # some: registered waiting != 0
        total = Signal(COMPLETED_BITS)
        m.d.comb += total.eq(waiting + sum(Cat(pulses)))
        m.d.sync += [waiting.eq(total - total.any()), some.eq(total > 1), self.done.eq(total.any())]
        return some | self.done
