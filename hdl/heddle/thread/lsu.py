"""Load-store unit of the thread unit: address checks, shared-memory LSU and global LSU."""

from amaranth import *
from amaranth.lib import data
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import PC_BITS, BankReadPort, BankWritePort, GlobalPort, ThreadKind, thread_operation_layout
from ..isa.encoding import Space
from ..isa.error_codes import ErrorCode
from ..lib.members import connect_members
from ..lib.onehot import select_one_hot
from ..parameters.thread import ThreadParameters
from .address_check import AddressCheck
from .global_lsu import GlobalLsu
from .same_address import SameAddress
from .shared_lsu import SharedLsu, placement_layout

__all__ = ["Lsu", "slot_step_layout"]


def slot_step_layout(cfg):
    """The micro-operation in the SIMD lanes: group, thread of the group when threads are served one at a time, word, and active threads."""
    slots = min(cfg.thread_slots, cfg.threads)
    return data.StructLayout({"group": range(cfg.thread_groups), "slot": range(slots), "word": 2, "last_word": 1, "active": slots})


class Lsu(Component):
    """Load-store unit: checks the addresses of a group of threads, then accesses shared memory by group or global memory by thread [S0.17].

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    operation : In(thread_operation_layout)
        Operation in the SIMD lanes.
    start : In(1)
        ``operation`` enters the SIMD lanes in the next cycle.
    leave : In(1)
        ``operation`` leaves the SIMD lanes in this cycle.
    valid : In(1)
        A micro-operation of a load or store is in the SIMD lanes.
    step : In(slot_step_layout(cfg))
        The micro-operation in the SIMD lanes.
    address, data : In(32).array(slots)
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
    taken : Out(1)
        The micro-operation is over.
    failing : Out(1)
        An active address of the micro-operation has an error, which ends the operation; with ``late_address_checks`` one cycle later.
    failed : Out(1)
        An earlier micro-operation of the operation was ``failing``.
    stopped : Out(1)
        The micro-operation in the SIMD lanes must not be executed.
    code, operand : Out(ErrorCode), Out(32)
        Error of ``operation`` and its address: the response of memory to a load, else the address that failed.
    error : Out(1)
        Memory answered a load of ``operation`` with an error.
    same : Out(1)
        With ``thread_overlap``: the operation loads from one address of shared memory for all threads.
    occupied : Out(1)
        Groups have not been requested, or loads from global memory are in flight.
    requesting, storing, in_flight : Out(1)
        Requests to shared memory are at the ports; stores are; requests or load data are in flight.
    arrived_slots, arrived_group : Out(slots), Out(range(thread_groups))
        Lanes whose load data are valid in this cycle, and their group.
    place : Out(placement_layout).array(slots)
        Bank and byte offset of the data of each lane.
    other, take_other : Out(128), Out(slots)
        Load data from global memory, and the lane that takes them.
    write_error, write_error_pc, write_error_address : Out(1), Out(PC_BITS), Out(32)
        Memory answered a store with an error: for one cycle, with program counter and byte address.
    writes_pending : Out(1)
        Stores to global memory are not acknowledged.
    event_conflicts : Out(1)
        A thread waits for a bank in this cycle.

    *Latency*: addresses are checked in the cycle in which the micro-operation is in the SIMD lanes. With ``late_address_checks`` the result
    comes a cycle later. A group of shared memory is then dropped from the buffer in front of the banks. A thread of global memory takes a
    cycle more: its request follows the cycle in which memory is ready.

    *Throughput*: one group of shared memory or one thread of global memory a cycle.

    *Back-pressure*: ``taken`` is combinational from ``hold``, ``address`` and the ready signals of ``port``, with ``late_address_checks``
    from registers. Without ``far_registers`` it also depends on ``hold_shared`` and the grants of the banks.

    *Reset*: no access is in flight.

    *Errors*: MISALIGNED before OUT_OF_RANGE, the lowest thread of the group; AXI_READ of an earlier group before both. Groups before the
    error are executed, its own and later ones are not.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "operation": In(thread_operation_layout),
            "start": In(1), "leave": In(1),
            "valid": In(1),
            "step": In(slot_step_layout(cfg)),
            "address": In(32).array(slots),
            "data": In(32).array(slots),
            "hold": In(1), "hold_shared": In(1), "hold_errors": In(1),
            "bank_read": Out(BankReadPort(cfg)),
            "bank_write": Out(BankWritePort(cfg)),
            "port": Out(GlobalPort(cfg, cfg.tag_bits)),
            "taken": Out(1),
            "failing": Out(1), "failed": Out(1), "stopped": Out(1),
            "code": Out(ErrorCode), "operand": Out(32), "error": Out(1),
            "same": Out(1),
            "occupied": Out(1), "requesting": Out(1), "storing": Out(1), "in_flight": Out(1),
            "arrived_slots": Out(slots),
            "arrived_group": Out(range(cfg.thread_groups)),
            "place": Out(placement_layout).array(slots),
            "other": Out(8 * BANK_BYTES),
            "take_other": Out(slots),
            "write_error": Out(1), "write_error_pc": Out(PC_BITS), "write_error_address": Out(32), "writes_pending": Out(1),
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
            self.taken.eq(Mux(self.operation.space == Space.GLOBAL, taken, gather.ready)),
            self.occupied.eq(gather.occupied | one.loading | (self.failing if self.cfg.late_address_checks else 0)),
        ]
        return m

    def _check(self, m, one):
        """An address with an error ends the operation before the group. Returns the address of the thread that is served, or of the one
        with the error.
        """
        m.submodules.address_check = check = AddressCheck(self.cfg)
        operands = list(self.address)
        address = Signal(32, name="one_address")
        failed_slot = Signal(range(self.slots), reset_less=True)
        late, turn, wrong = self.cfg.late_address_checks, self.step.slot, address
        self._bad = check.bad
        if late:
            wrong = Signal(32, name="wrong_address", reset_less=True)
            m.d.sync += self.failing.eq(self.valid & check.bad & ~self.failing & ~self.failed)
            with m.If(~self.failing & ~self.failed):
                m.d.sync += wrong.eq(select_one_hot(1 << check.bad_slot, operands))
        else:
            turn = Mux(self.failed, failed_slot, turn)
            m.d.comb += self.failing.eq(self.valid & check.bad)
        m.d.comb += [port.eq(operand) for port, operand in zip(check.addresses, operands, strict=True)]
        m.d.comb += [
            check.active.eq(self.step.active), check.access.eq(self.operation.access),
            check.space.eq(self.operation.space), check.address.eq(wrong),
            self.stopped.eq((self.failing | self.failed) if late else self.failing),
            address.eq(select_one_hot(1 << turn, operands)),
            self.code.eq(Mux(one.read_error, ErrorCode.AXI_READ, check.code)),
            self.operand.eq(Mux(one.read_error, one.read_error_address, wrong)), self.error.eq(one.read_error),
        ]
        with m.If(self.leave):
            m.d.sync += self.failed.eq(0)
        with m.If(self.failing):
            m.d.sync += [self.failed.eq(1), failed_slot.eq(check.bad_slot)]
        return address

    def _shared(self, m, gather):
        step, is_global = self.step, self.operation.space == Space.GLOBAL
        m.d.comb += [
            gather.valid.eq(self.valid & ~is_global & ~self.stopped), gather.hold.eq(self.hold_shared),
            gather.waiting.eq(step.active), gather.word.eq(step.word), gather.group.eq(step.group),
            gather.store.eq(self.operation.kind == ThreadKind.STORE), gather.access.eq(self.operation.access),
            self.requesting.eq(gather.requesting), self.storing.eq(gather.storing),
            self.in_flight.eq(gather.in_flight), self.event_conflicts.eq(gather.event_conflicts),
        ]
        m.d.comb += [port.eq(address) for port, address in zip(gather.address, self.address, strict=True)]
        connect_members(m, flipped(self), gather, ("data",))
        if self.cfg.late_address_checks:
            m.d.sync += gather.drop.eq(gather.valid & gather.ready & self._bad)
        if not self.cfg.thread_overlap:
            return
        m.submodules.same_address = same = SameAddress(self.cfg)
        m.d.comb += [
            same.start.eq(self.start), same.step.eq(gather.valid & gather.ready), same.active.eq(step.active),
            self.same.eq(same.same & ~is_global & (self.operation.kind == ThreadKind.LOAD)),
        ]
        m.d.comb += [port.eq(address) for port, address in zip(same.address, self.address, strict=True)]

    def _global(self, m, access, address):
        """Accesses global memory for one thread; returns whether the thread is over."""
        step, operation, taken, active = self.step, self.operation, Signal(name="global_taken"), Signal(name="one_active")
        goes, wants = access.ready, self.valid & (operation.space == Space.GLOBAL) & active & ~self.hold
        if self.cfg.late_address_checks:
            # Ready is sampled while the addresses are checked. Nothing else accesses global memory, so it remains ready in the next cycle.
            goes = Signal(name="checked")
            m.d.sync += goes.eq(wants & ~self.taken & access.ready)
            wants = goes
        m.d.comb += [
            active.eq(step.active.bit_select(step.slot, 1)),
            access.valid.eq(wants & ~self.stopped),
            taken.eq(self.valid & (~active | (access.valid & goes))),
            access.address.eq(address), access.data.eq(select_one_hot(1 << step.slot, self.data)),
            access.group.eq(step.group), access.slot.eq(step.slot), access.word.eq(step.word), access.last_word.eq(step.last_word),
            access.store.eq(operation.kind == ThreadKind.STORE), access.access.eq(operation.access), access.pc.eq(operation.pc),
            access.clear_error.eq(self.start), access.hold_errors.eq(self.hold_errors),
            self.writes_pending.eq(access.writes_pending), self.write_error.eq(access.write_error),
            self.write_error_pc.eq(access.write_error_pc), self.write_error_address.eq(access.write_error_address),
        ]
        return taken

    def _return(self, m, gather, one):
        m.d.comb += [
            self.take_other.bit_select(one.o_slot, 1).eq(one.o_valid), self.other.eq(one.o_data),
            self.arrived_slots.eq(gather.return_slots | self.take_other),
            self.arrived_group.eq(Mux(one.o_valid, one.o_group, gather.return_group)),
        ]
        for place, returned in zip(self.place, gather.return_place):
            m.d.comb += [place.bank.eq(returned.bank), place.offset.eq(Mux(one.o_valid, one.o_offset, returned.offset))]
