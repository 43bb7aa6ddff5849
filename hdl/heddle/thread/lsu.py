"""Load-store unit of the thread unit: address checks, shared-memory LSU and global LSU."""

from amaranth import *
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped

from ..constants import BANK_BYTES
from ..interfaces.layouts import PC_BITS, GlobalPort, SharedReadPort, SharedWritePort, ThreadKind, thread_operation_layout
from ..interfaces.swizzle import swizzled
from ..isa.encoding import Space
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..lib.onehot import select_one_hot
from ..lib.stream import link
from ..parameters.thread import ThreadParameters
from .address_check import AddressCheck
from .global_lsu import GlobalLsu, WriteErrorStream
from .micro_ops import micro_op_layout
from .offset_fetch import ElementSize, element_size
from .same_address import SameAddress
from .shared_lsu import ArrivalPort, SharedLsu, SharedStatusPort, placement_layout

__all__ = ["AccessFaultPort", "LoadStorePort", "LaneAddressPort", "LoadDataPort", "Lsu"]


def LoadStorePort(cfg):
    """Micro-operation of a load or store, seen from the control of the SIMD lanes.

    *Ports*:
    valid : Out(1)
        A micro-operation of a load or store is in the SIMD lanes.
    step : Out(micro_op_layout(cfg))
        The micro-operation.
    taken : In(1)
        The micro-operation is over.
    stopped : In(1)
        The micro-operation is over without an access.
    """
    return Signature({"valid": Out(1), "step": Out(micro_op_layout(cfg)), "taken": In(1), "stopped": In(1)})


def LaneAddressPort(cfg):
    """Addresses and store data of a group of threads, seen from the SIMD lanes.

    *Ports*:
    address : Out(32).array(slots)
        Byte address of each lane.
    data : Out(32).array(slots)
        Store data of each lane, in every place of the word.
    """
    slots = min(cfg.thread_slots, cfg.threads)
    return Signature({"address": Out(32).array(slots), "data": Out(32).array(slots)})


def AccessFaultPort():
    """Error of a load or store, seen from the LSU.

    *Ports*:
    failing : Out(1)
        An active address of the micro-operation of the cycle before has an error, which ends the operation.
    failed : Out(1)
        An earlier micro-operation of the operation in the SIMD lanes was ``failing``.
    error : Out(1)
        Memory answered a load of the operation in the SIMD lanes with an error.
    report : Out(1)
        ``failing``, of an operation in shared memory: its error is to be reported in this cycle. An error of an operation in global memory
        is to be reported when the operation leaves.
    code, pc, operand : Out(ErrorCode), Out(PC_BITS), Out(32)
        The error to be reported: its code (the response of memory to a load before an error of an address), program counter, address.
    """
    return Signature({"failing": Out(1), "failed": Out(1), "error": Out(1), "report": Out(1), "code": Out(ErrorCode),
                      "pc": Out(PC_BITS), "operand": Out(32)})


def LoadDataPort(cfg):
    """Where the SIMD lanes find their load data, seen from the LSU.

    *Ports*:
    place : Out(placement_layout).array(slots)
        Bank of shared memory and byte offset of the data of each lane; no bank for data from global memory.
    other : Out(128)
        Load data from global memory.
    take_other : Out(slots)
        The lane that takes them.
    """
    slots = min(cfg.thread_slots, cfg.threads)
    return Signature({"place": Out(placement_layout).array(slots), "other": Out(8 * BANK_BYTES), "take_other": Out(slots)})


class Lsu(Component):
    """Load-store unit: checks the addresses of a group of threads, then accesses shared memory by group or global memory by thread [S0.17].

    In a swizzled tile the bank of a thread is exchanged after the check.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    operation : In(thread_operation_layout(cfg))
        Operation in the SIMD lanes.
    number : In(1)
        Its number modulo 2.
    start : In(1)
        ``operation`` enters the SIMD lanes in the next cycle.
    leave : In(1)
        ``operation`` leaves the SIMD lanes in this cycle.
    access : In(LoadStorePort(cfg))
        The micro-operation in the SIMD lanes.
    lanes : In(LaneAddressPort(cfg))
        Byte address and store data of each lane.
    hold : In(1)
        No request to global memory may be made.
    hold_loads : In(1)
        No load from shared memory may be requested.
    hold_errors : In(1)
        Write responses of global memory are not taken, so that their errors wait.
    bank_read : Out(SharedReadPort(cfg))
        Reads of shared memory; the owner takes the data of the answers.
    bank_write : Out(SharedWritePort(cfg))
        Writes of shared memory.
    port : Out(GlobalPort(cfg, cfg.tag_bits))
        Global memory.
    fault : Out(AccessFaultPort())
        Error of ``operation``, or of a store to shared memory that left in the cycle before.
    same : Out(1)
        With ``thread_overlap``: the operation loads from one address of shared memory for all threads.
    occupied : Out(1)
        ``operation`` must not leave. Its check failed in this cycle, or groups of a load are not requested after this cycle. Or threads of
        global memory have not been requested, or their loads are in flight. A store to shared memory may always leave.
    shared : Out(SharedStatusPort())
        Accesses to shared memory in flight.
    arrived : Out(ArrivalPort(cfg))
        Lanes whose load data are valid in this cycle.
    load_data : Out(LoadDataPort(cfg))
        Where they are.
    o_write_error : Out(WriteErrorStream())
        Stores that memory answered with an error.
    writes_pending : Out(1)
        Stores to global memory are not acknowledged.
    event_conflicts : Out(1)
        Threads wait for a bank in this cycle.

    *Latency*: addresses are checked in the cycle in which the micro-operation is in the SIMD lanes, and go ahead at once. The result of the
    check comes a cycle later: a group of shared memory, or a thread of global memory, is then dropped where it went.

    *Throughput*: one group of shared memory or one thread of global memory a cycle.

    *Back-pressure*: ``access.taken`` is combinational from ``hold``, ``hold_loads`` and from the ready signals, answers and
    acknowledgements of the ports, not from the addresses.

    *Reset*: no access is in flight.

    *Errors*: OFFSET_RANGE, then MISALIGNED, then OUT_OF_RANGE, the lowest thread of the group; AXI_READ of an earlier group before these.
    Groups before the error are executed, its own and later ones are not.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "operation": In(thread_operation_layout(cfg)), "number": In(1),
            "start": In(1), "leave": In(1),
            "access": In(LoadStorePort(cfg)),
            "lanes": In(LaneAddressPort(cfg)),
            "hold": In(1), "hold_loads": In(1), "hold_errors": In(1),
            "bank_read": Out(SharedReadPort(cfg)),
            "bank_write": Out(SharedWritePort(cfg)),
            "port": Out(GlobalPort(cfg, cfg.tag_bits)),
            "fault": Out(AccessFaultPort()),
            "same": Out(1),
            "occupied": Out(1),
            "shared": Out(SharedStatusPort()),
            "arrived": Out(ArrivalPort(cfg)),
            "load_data": Out(LoadDataPort(cfg)),
            "o_write_error": Out(WriteErrorStream()),
            "writes_pending": Out(1),
            "event_conflicts": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.gather = gather = SharedLsu(self.cfg)
        m.submodules.global_access = one = GlobalLsu(self.cfg)
        connect(m, gather.bank_read, flipped(self.bank_read))
        connect(m, gather.bank_write, flipped(self.bank_write))
        connect(m, one.port, flipped(self.port))
        self._is_global, self._stores = Signal(name="is_global"), Signal(name="stores")
        m.d.comb += [
            self._is_global.eq(self.operation.space == Space.GLOBAL), self._stores.eq(self.operation.kind == ThreadKind.STORE),
        ]
        bad = self._check(m, one)
        self._shared(m, gather, bad)
        self._global(m, gather, one, bad)
        self._return(m, gather, one)
        m.d.comb += self.occupied.eq(~(self._stores & ~self._is_global) & (~gather.i.ready | one.occupied | self.fault.failing))
        return m

    def _check(self, m, one):
        """The first micro-operation with a wrong address ends the operation. Returns whether the one in the SIMD lanes has one."""
        m.submodules.address_check = check = AddressCheck(self.cfg)
        operation, fault = self.operation, self.fault
        wrong, code = Signal(32, name="wrong_address", reset_less=True), Signal(ErrorCode, name="wrong_code", reset_less=True)
        shared, left = Signal(name="checked_shared", reset_less=True), Signal(name="left")
        bad = check.bad | (self._beyond() & self.access.step.active.any()) if self.cfg.gather_offsets else check.bad
        m.d.comb += [port.eq(address) for port, address in zip(check.addresses, self.lanes.address, strict=True)]
        m.d.comb += [
            check.active.eq(self.access.step.active), check.access.eq(operation.access), check.space.eq(operation.space),
            self.access.stopped.eq(fault.failing | fault.failed),
            fault.error.eq(one.read_error.error), fault.report.eq(fault.failing & shared),
            fault.code.eq(Mux(fault.error, ErrorCode.AXI_READ, code)),
            fault.operand.eq(Mux(fault.error, one.read_error.address, wrong)),
        ]
        m.d.sync += [fault.failing.eq(self.access.valid & bad & ~self.access.stopped), left.eq(self.leave)]
        with m.If(~self.access.stopped):
            m.d.sync += [
                wrong.eq(select_one_hot(1 << check.bad_slot, list(self.lanes.address))),
                code.eq(Mux(check.misaligned, ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE)),
                shared.eq(~self._is_global), fault.pc.eq(operation.pc),
            ]
            if self.cfg.gather_offsets:
                with m.If(self._beyond()):
                    m.d.sync += [wrong.eq(self.cfg.compiled_offsets), code.eq(ErrorCode.OFFSET_RANGE)]
        with m.If(fault.failing & ~left):
            m.d.sync += fault.failed.eq(1)
        with m.If(self.leave):
            m.d.sync += fault.failed.eq(0)
        return bad

    def _beyond(self):
        """An element of the gather has an entry behind the compiled-offset memory."""
        operation = self.operation
        return operation.gathers & (operation.first_entry + operation.entries >= self.cfg.compiled_offsets)

    def _shared(self, m, gather, bad):
        step, group = self.access.step, gather.i.payload
        m.d.comb += [
            gather.i.valid.eq(self.access.valid & ~self._is_global & ~self.access.stopped), gather.hold.eq(self.hold_loads),
            group.waiting.eq(step.active), group.word.eq(step.word), group.group.eq(step.group),
            group.store.eq(self._stores), group.access.eq(self.operation.access), group.operation.eq(self.number),
        ]
        m.d.comb += [place.eq(swizzled(self.cfg, address, self.operation.swizzle, 1))
                     for place, address in zip(group.address, self.lanes.address, strict=True)]
        m.d.comb += [place.eq(value) for place, value in zip(group.data, self.lanes.data, strict=True)]
        if self.cfg.gather_offsets:
            m.d.comb += group.size.eq(element_size(self.operation))
        connect(m, gather.status, flipped(self.shared))
        connect_members(m, gather, flipped(self), ("event_conflicts",))
        m.d.sync += gather.drop.eq(gather.i.valid & gather.i.ready & bad)
        if not self.cfg.thread_overlap:
            return
        m.submodules.same_address = same = SameAddress(self.cfg)
        m.d.comb += [
            same.start.eq(self.start), same.step.eq(gather.i.valid & gather.i.ready), same.active.eq(step.active),
            self.same.eq(same.same & ~self._is_global & (self.operation.kind == ThreadKind.LOAD)),
        ]
        m.d.comb += [port.eq(address) for port, address in zip(same.address, self.lanes.address, strict=True)]

    def _global(self, m, gather, one, bad):
        """Accesses global memory for one thread."""
        step, operation, thread = self.access.step, self.operation, one.i.payload
        active = Signal(name="one_active")
        m.d.comb += [
            active.eq(step.active.bit_select(step.slot, 1)),
            one.i.valid.eq(self.access.valid & self._is_global & active & ~self.access.stopped & ~self.hold),
            self.access.taken.eq(Mux(self._is_global, ~active | (one.i.ready & ~self.hold), gather.i.ready)),
            thread.address.eq(select_one_hot(1 << step.slot, list(self.lanes.address))),
            thread.data.eq(select_one_hot(1 << step.slot, list(self.lanes.data))),
            *(thread[name].eq(step[name]) for name in ("group", "slot", "word", "last_word")),
            one.store.eq(self._stores), one.access.eq(operation.access), one.pc.eq(operation.pc),
            one.read_error.clear.eq(self.start),
        ]
        m.d.sync += one.drop.eq(one.i.valid & one.i.ready & bad)
        connect_members(m, flipped(self), one, ("hold_errors", "writes_pending"))
        link(m, one.o_write_error, flipped(self.o_write_error))

    def _return(self, m, gather, one):
        loaded, thread, load_data = one.o.valid, one.o.payload, self.load_data
        m.d.comb += [
            load_data.take_other.bit_select(thread.slot, 1).eq(loaded), load_data.other.eq(thread.data),
            self.arrived.slots.eq(gather.arrived.slots | load_data.take_other),
            self.arrived.group.eq(Mux(loaded, thread.group, gather.arrived.group)),
        ]
        if self.cfg.gather_offsets:
            m.d.comb += [
                self.arrived.size.eq(Mux(loaded, ElementSize.LINE, gather.arrived.size)), self.arrived.element.eq(gather.arrived.element),
            ]
        for place, shared in zip(load_data.place, gather.place, strict=True):
            m.d.comb += [place.bank.eq(shared.bank), place.offset.eq(Mux(loaded, thread.offset, shared.offset))]
