"""Load-store unit of the thread unit: address checks, shared-memory LSU and global LSU."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out, Signature, connect, flipped

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import BankReadPort, BankWritePort, GlobalPort, ThreadKind, thread_operation_layout
from ..isa.encoding import Space
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..lib.onehot import select_one_hot
from ..lib.stream import link
from ..lib.swizzle import swizzled
from ..parameters.thread import ThreadParameters
from .address_check import AddressCheck
from .global_lsu import GlobalLsu, WriteErrorStream
from .same_address import SameAddress
from .shared_lsu import ArrivalPort, SharedLsu, SharedStatusPort, placement_layout

__all__ = ["AccessFaultPort", "LoadStorePort", "LaneAddressPort", "LoadDataPort", "Lsu", "slot_step_layout"]


def slot_step_layout(cfg):
    """The micro-operation in the SIMD lanes: group, thread of the group when threads are served one at a time, word, and active threads."""
    slots = min(cfg.thread_slots, cfg.threads)
    return data.StructLayout({"group": range(cfg.thread_groups), "slot": range(slots), "word": 2, "last_word": 1, "active": slots})


def LoadStorePort(cfg):
    """Micro-operation of a load or store, seen from the control of the SIMD lanes.

    *Ports*:
    valid : Out(1)
        A micro-operation of a load or store is in the SIMD lanes.
    step : Out(slot_step_layout(cfg))
        The micro-operation.
    taken : In(1)
        The micro-operation is over.
    stopped : In(1)
        The micro-operation must not be executed.
    """
    return Signature({"valid": Out(1), "step": Out(slot_step_layout(cfg)), "taken": In(1), "stopped": In(1)})


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
    """Error of the operation in the SIMD lanes, seen from the LSU.

    *Ports*:
    failing : Out(1)
        An active address of the micro-operation has an error, which ends the operation; with ``late_address_checks`` one cycle later.
    failed : Out(1)
        An earlier micro-operation of the operation was ``failing``.
    error : Out(1)
        Memory answered a load of the operation with an error.
    code : Out(ErrorCode)
        Error of the operation: the response of memory to a load, else the error of the address.
    operand : Out(32)
        Its address.
    """
    return Signature({"failing": Out(1), "failed": Out(1), "error": Out(1), "code": Out(ErrorCode), "operand": Out(32)})


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
    hold_shared : In(1)
        No request to shared memory may be made.
    hold_errors : In(1)
        Write responses of global memory are not taken, so that their errors wait.
    bank_read : Out(BankReadPort(cfg))
        Reads of shared memory.
    bank_write : Out(BankWritePort(cfg))
        Writes of shared memory.
    bank_ahead : In(8)
        With ``banks_known_ahead``: banks that grant nothing in the next cycle.
    port : Out(GlobalPort(cfg, cfg.tag_bits))
        Global memory.
    fault : Out(AccessFaultPort())
        Error of ``operation``.
    same : Out(1)
        With ``thread_overlap``: the operation loads from one address of shared memory for all threads.
    occupied : Out(1)
        Groups have not been requested, or loads from global memory are in flight.
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
        A thread waits for a bank in this cycle.

    *Latency*: addresses are checked in the cycle in which the micro-operation is in the SIMD lanes. With ``late_address_checks`` the result
    comes a cycle later. A group of shared memory is then dropped from the buffer in front of the banks. A thread of global memory takes a
    cycle more: its request follows the cycle in which memory is ready.

    *Throughput*: one group of shared memory or one thread of global memory a cycle.

    *Back-pressure*: ``access.taken`` is combinational from ``hold``, ``lanes.address`` and the ready signals of ``port``, with
    ``late_address_checks`` from registers. Without ``far_registers`` it also depends on ``hold_shared`` and the grants of the banks.

    *Reset*: no access is in flight.

    *Errors*: MISALIGNED before OUT_OF_RANGE, the lowest thread of the group; AXI_READ of an earlier group before both. Groups before the
    error are executed, its own and later ones are not.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "operation": In(thread_operation_layout(cfg)),
            "start": In(1), "leave": In(1),
            "access": In(LoadStorePort(cfg)),
            "lanes": In(LaneAddressPort(cfg)),
            "hold": In(1), "hold_shared": In(1), "hold_errors": In(1),
            "bank_read": Out(BankReadPort(cfg)),
            "bank_write": Out(BankWritePort(cfg)),
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
        } | ({"bank_ahead": In(BANKS)} if cfg.banks_known_ahead else {}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.gather = gather = SharedLsu(self.cfg)
        m.submodules.global_access = one = GlobalLsu(self.cfg)
        connect(m, gather.bank_read, flipped(self.bank_read))
        connect(m, gather.bank_write, flipped(self.bank_write))
        connect(m, one.port, flipped(self.port))
        if self.cfg.banks_known_ahead:
            m.d.comb += gather.bank_ahead.eq(self.bank_ahead)
        address = self._check(m, one)
        self._shared(m, gather)
        taken = self._global(m, one, address)
        self._return(m, gather, one)
        m.d.comb += [
            self.access.taken.eq(Mux(self.operation.space == Space.GLOBAL, taken, gather.i.ready)),
            self.occupied.eq(gather.occupied | one.loading | (self.fault.failing if self.cfg.late_address_checks else 0)),
        ]
        return m

    def _check(self, m, one):
        """An address with an error ends the operation before the group. Returns the address of the thread that is served, or of the one
        with the error.
        """
        m.submodules.address_check = check = AddressCheck(self.cfg)
        operands, fault = list(self.lanes.address), self.fault
        address = Signal(32, name="one_address")
        failed_slot = Signal(range(self.slots), reset_less=True)
        late, turn, wrong = self.cfg.late_address_checks, self.access.step.slot, address
        self._bad = check.bad
        if late:
            wrong = Signal(32, name="wrong_address", reset_less=True)
            m.d.sync += fault.failing.eq(self.access.valid & check.bad & ~fault.failing & ~fault.failed)
            with m.If(~fault.failing & ~fault.failed):
                m.d.sync += wrong.eq(select_one_hot(1 << check.bad_slot, operands))
        else:
            turn = Mux(fault.failed, failed_slot, turn)
            m.d.comb += fault.failing.eq(self.access.valid & check.bad)
        m.d.comb += [port.eq(operand) for port, operand in zip(check.addresses, operands, strict=True)]
        m.d.comb += [
            check.active.eq(self.access.step.active), check.access.eq(self.operation.access),
            check.space.eq(self.operation.space), check.address.eq(wrong),
            self.access.stopped.eq((fault.failing | fault.failed) if late else fault.failing),
            address.eq(select_one_hot(1 << turn, operands)),
            fault.code.eq(Mux(one.read_error.error, ErrorCode.AXI_READ, check.code)),
            fault.operand.eq(Mux(one.read_error.error, one.read_error.address, wrong)), fault.error.eq(one.read_error.error),
        ]
        with m.If(self.leave):
            m.d.sync += fault.failed.eq(0)
        with m.If(fault.failing):
            m.d.sync += [fault.failed.eq(1), failed_slot.eq(check.bad_slot)]
        return address

    def _shared(self, m, gather):
        step, group, is_global = self.access.step, gather.i.payload, self.operation.space == Space.GLOBAL
        m.d.comb += [
            gather.i.valid.eq(self.access.valid & ~is_global & ~self.access.stopped), gather.hold.eq(self.hold_shared),
            group.waiting.eq(step.active), group.word.eq(step.word), group.group.eq(step.group),
            gather.store.eq(self.operation.kind == ThreadKind.STORE), gather.access.eq(self.operation.access),
        ]
        m.d.comb += [place.eq(swizzled(self.cfg, address, self.operation.swizzle, 1))
                     for place, address in zip(group.address, self.lanes.address, strict=True)]
        m.d.comb += [place.eq(value) for place, value in zip(group.data, self.lanes.data, strict=True)]
        connect(m, gather.status, flipped(self.shared))
        connect_members(m, gather, flipped(self), ("event_conflicts",))
        if self.cfg.late_address_checks:
            m.d.sync += gather.drop.eq(gather.i.valid & gather.i.ready & self._bad)
        if not self.cfg.thread_overlap:
            return
        m.submodules.same_address = same = SameAddress(self.cfg)
        m.d.comb += [
            same.start.eq(self.start), same.step.eq(gather.i.valid & gather.i.ready), same.active.eq(step.active),
            self.same.eq(same.same & ~is_global & (self.operation.kind == ThreadKind.LOAD)),
        ]
        m.d.comb += [port.eq(address) for port, address in zip(same.address, self.lanes.address, strict=True)]

    def _global(self, m, one, address):
        """Accesses global memory for one thread; returns whether the thread is over."""
        step, operation, taken, active = self.access.step, self.operation, Signal(name="global_taken"), Signal(name="one_active")
        goes, wants, thread = one.i.ready, self.access.valid & (operation.space == Space.GLOBAL) & active & ~self.hold, one.i.payload
        if self.cfg.late_address_checks:
            # Ready is sampled while the addresses are checked. Nothing else accesses global memory, so it remains ready in the next cycle.
            goes = Signal(name="checked")
            m.d.sync += goes.eq(wants & ~self.access.taken & one.i.ready)
            wants = goes
        m.d.comb += [
            active.eq(step.active.bit_select(step.slot, 1)),
            one.i.valid.eq(wants & ~self.access.stopped),
            taken.eq(self.access.valid & (~active | (one.i.valid & goes))),
            thread.address.eq(address), thread.data.eq(select_one_hot(1 << step.slot, self.lanes.data)),
            *(thread[name].eq(step[name]) for name in ("group", "slot", "word", "last_word")),
            one.store.eq(operation.kind == ThreadKind.STORE), one.access.eq(operation.access), one.pc.eq(operation.pc),
            one.read_error.clear.eq(self.start),
        ]
        connect_members(m, flipped(self), one, ("hold_errors", "writes_pending"))
        link(m, one.o_write_error, flipped(self.o_write_error))
        return taken

    def _return(self, m, gather, one):
        loaded, thread, load_data = one.o.valid, one.o.payload, self.load_data
        m.d.comb += [
            load_data.take_other.bit_select(thread.slot, 1).eq(loaded), load_data.other.eq(thread.data),
            self.arrived.slots.eq(gather.arrived.slots | load_data.take_other),
            self.arrived.group.eq(Mux(loaded, thread.group, gather.arrived.group)),
        ]
        for place, shared in zip(load_data.place, gather.place, strict=True):
            m.d.comb += [place.bank.eq(shared.bank), place.offset.eq(Mux(loaded, thread.offset, shared.offset))]
