"""Shared-memory LSU: coalescer of a group of threads, and its requests to the banks."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SharedReadPort, SharedWritePort
from ..isa.encoding import Access
from ..lib.onehot import select_one_hot
from ..lib.stream import Queue
from ..parameters.thread import ThreadParameters
from .micro_ops import word_bits
from .offset_fetch import ElementSize

__all__ = ["ArrivalPort", "SharedLsu", "SharedStatusPort", "group_access_layout", "placement_layout"]

OPERATIONS = 2      # operations with accesses in flight at most; consecutive ones have different numbers

placement_layout = data.StructLayout({"bank": BANKS, "offset": 4})      # bank: one-hot


def group_access_layout(cfg):
    """Access of a group of threads to shared memory.

    ``waiting``: threads of the group that access memory. ``group``: its number. ``word``: 32-bit words above ``address``, as a store of a
    vector comes word by word. ``address``: naturally aligned byte address of each lane. ``data``: word that it stores; 8- and 16-bit data
    are in every place of the word. ``store``, ``access``: kind and width. ``operation``: number of its operation modulo 2.
    Of a gather ``size`` is that of an element, and ``word`` the number of the element, which does not move ``address``.
    """
    slots = min(cfg.thread_slots, cfg.threads)
    return data.StructLayout({
        "waiting": slots, "group": range(cfg.thread_groups), "word": word_bits(cfg),
        "address": data.ArrayLayout(cfg.shared_address_bits, slots), "data": data.ArrayLayout(32, slots),
        "store": 1, "access": Access, "operation": range(OPERATIONS), **({"size": ElementSize} if cfg.gather_offsets else {}),
    })


def _request_layout(cfg):
    """Request without its last answer.

    ``slots``: SIMD lanes that take words of its answers; none of a store. ``group``, ``operation``: as in ``group_access_layout``.
    ``place``: bank and byte offset of the address of each lane. ``element``, ``size``: of a gather, ``word`` and ``size`` of its group.
    """
    slots = min(cfg.thread_slots, cfg.threads)
    place = data.StructLayout({"offset": 4, "bank": range(BANKS)})
    return data.StructLayout({
        "slots": slots, "group": range(cfg.thread_groups), "operation": range(OPERATIONS), "place": data.ArrayLayout(place, slots),
        **({"element": word_bits(cfg), "size": ElementSize} if cfg.gather_offsets else {}),
    })


def ArrivalPort(cfg):
    """Load data that arrive in a cycle, seen from the LSU.

    *Ports*:
    slots : Out(slots)
        SIMD lanes whose load data are valid in this cycle.
    group : Out(range(thread_groups))
        Their group.
    element, size : Out(4), Out(ElementSize)
        With ``gather_offsets``: number and size of their element.
    """
    return Signature({"slots": Out(min(cfg.thread_slots, cfg.threads)), "group": Out(range(cfg.thread_groups))} | (
        {"element": Out(word_bits(cfg)), "size": Out(ElementSize)} if cfg.gather_offsets else {}))


def SharedStatusPort():
    """Accesses to shared memory in flight, seen from the LSU.

    *Ports*:
    waiting : Out(2)
        Bit n: after this cycle, operation n has a group that is not requested, or a request without its last answer or acknowledgement.
    in_flight : Out(2)
        Bit n: operation n is ``waiting``, or its load data arrive in this cycle.
    """
    return Signature({"waiting": Out(OPERATIONS), "in_flight": Out(OPERATIONS)})


class SharedLsu(Component):
    """Shared-memory LSU: coalesces the accesses of a group of threads into requests to the 8 banks of 16 bytes [S0.17].

    For each request every bank selects its lowest waiting thread. A load also serves all waiting threads with the same 16-byte word. A
    group is one request without conflicts. A load else is as many requests as different words of one bank, a store as many as threads of
    one bank. With ``shared_writes`` 1 a store is one request for each thread.

    Reads and writes are never in flight together: a load waits for the acknowledgements of the stores before it, a store for the answers
    of the loads before it. Up to ``cfg.shared_requests`` requests are in flight.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    i : In(stream.Signature(group_access_layout(cfg)))
        Accesses of groups of threads. At most two operations have accesses in flight. ``ready`` without ``valid``: after this cycle no
        thread is left that has not been requested.
    drop : In(1)
        The group that was taken in the cycle before is void; none comes in this cycle.
    hold : In(1)
        No load is requested.
    bank_read : Out(SharedReadPort(cfg))
        Reads of shared memory; the owner takes the data of the answers.
    bank_write : Out(SharedWritePort(cfg))
        Writes of shared memory.
    arrived : Out(ArrivalPort(cfg))
        Lanes whose load data are in the answer of this cycle.
    place : Out(placement_layout).array(slots)
        Bank (none for other lanes) and byte offset of their data.
    status : Out(SharedStatusPort())
        Requests and load data in flight.
    event_conflicts : Out(1)
        Threads wait for a bank in this cycle: a request leaves threads of its group to the next one, or a request waits at a port that is
        not ready. The wait of a request within memory counts only in cycles in which the next one waits at the port.

    *Latency*: one cycle from taking a group to the choice of its first request, which is at a port in the next cycle. Load data arrive
    with their answer, ``SHARED_READ_LATENCY`` (1) cycles after the transfer of the request at least.

    *Throughput*: one group a cycle without conflicts, with memory at its least latency.

    *Back-pressure*: ``i.ready`` is combinational from ``hold``, ``drop``, ``ready`` of the ports, answers and acknowledgements.

    *Reset*: no group or request is in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "i": In(stream.Signature(group_access_layout(cfg))),
            "drop": In(1),
            "hold": In(1),
            "bank_read": Out(SharedReadPort(cfg)),
            "bank_write": Out(SharedWritePort(cfg)),
            "arrived": Out(ArrivalPort(cfg)),
            "place": Out(placement_layout).array(slots),
            "status": Out(SharedStatusPort()),
            "event_conflicts": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        self._current = Signal(group_access_layout(self.cfg), name="current", reset_less=True)
        self._address = list(self._current.address)
        self._occupied = Signal(name="occupied")                # threads of a group have not been requested
        self._take = Signal(name="take")                        # a group comes
        self._choose = Signal(name="choose")                    # the selected threads become a request
        self._first = Signal(self.slots, name="first")          # selected by its bank
        self._served = Signal(self.slots, name="served")        # selected, or a load of the same word
        self._left = Signal(self.slots, name="left")            # not served
        self._select(m)
        self._enter(m)
        free = self._request(m)
        may = self._track(m)
        m.d.comb += [
            self._choose.eq(self._occupied & ~self.drop & free & may & ~(self.hold & ~self._current.store)),
            self.event_conflicts.eq((self._choose & self._left.any()) | ~free),
        ]
        return m

    def _compare(self, m):
        """Registered comparisons of the banks and the words of each pair of SIMD lanes."""
        same_bank, same_word, taken = {}, {}, self.i.payload
        one_write, address = taken.store & (self.cfg.shared_writes == 1), taken.address
        for high in range(self.slots):
            for low in range(high):
                bank = same_bank[low, high] = Signal(name=f"same_bank_{low}_{high}", reset_less=True)
                word = same_word[low, high] = Signal(name=f"same_word_{low}_{high}", reset_less=True)
                with m.If(self._take):
                    m.d.sync += [
                        # With one write bus all stores conflict, as if they had one bank.
                        bank.eq((address[low][4:7] == address[high][4:7]) | one_write),
                        word.eq((address[low][4:] == address[high][4:]) & ~taken.store),
                    ]
        return same_bank, same_word

    def _select(self, m):
        """Selects the threads of the next request."""
        same_bank, same_word = self._compare(m)
        waiting = self._current.waiting
        for slot in range(self.slots):
            blocked = [waiting[low] & same_bank[low, slot] for low in range(slot)]
            shared = [self._first[low] & same_word[low, slot] for low in range(slot)]
            m.d.comb += [
                self._first[slot].eq(waiting[slot] & ~Cat(blocked).any()),
                self._served[slot].eq(self._first[slot] | (waiting[slot] & Cat(shared).any())),
            ]
        m.d.comb += self._left.eq(waiting & ~self._served)

    def _enter(self, m):
        """The group whose threads are selected."""
        m.d.comb += [
            self.i.ready.eq(~self._occupied | (self._choose & ~self._left.any())),
            self._take.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self._choose):
            m.d.sync += [self._current.waiting.eq(self._left), self._occupied.eq(self._left.any())]
        with m.If(self.drop):
            m.d.sync += self._occupied.eq(0)
        with m.If(self._take):
            m.d.sync += [self._current.eq(self.i.payload), self._occupied.eq(1)]

    def _of_chosen(self, chosen, values):
        """Value of the selected thread. With one SIMD lane it is undefined without one, which avoids a reset of all registers."""
        return values[0] if self.slots == 1 else select_one_hot(chosen, values)

    def _request(self, m):
        """Requests of the selected threads at the ports; returns whether another one may take their place."""
        read, write, store = self.bank_read.request, self.bank_write.request, self._current.store
        free = Signal(name="free")
        banks = Signal(BANKS, name="banks", reset_less=True)
        rows, threads = [address[7:] for address in self._address], []
        for bank in range(BANKS):
            chosen, row = Signal(self.slots, name=f"chosen_{bank}"), Signal(self.cfg.row_bits, name=f"row_{bank}", reset_less=True)
            m.d.comb += [
                *(chosen[slot].eq(self._first[slot] & (self._address[slot][4:7] == bank)) for slot in range(self.slots)),
                read.payload.row[bank].eq(row),
            ]
            with m.If(self._choose):
                m.d.sync += [banks[bank].eq(chosen.any()), row.eq(self._of_chosen(chosen, rows))]
            threads.append(chosen)
        m.d.comb += [
            free.eq(~(read.valid & ~read.ready) & ~(write.valid & ~write.ready)),
            read.payload.bank.eq(banks), write.payload.bank.eq(banks),
        ]
        if self.cfg.shared_writes == 1:
            row = Signal(self.cfg.row_bits, name="stored_row", reset_less=True)
            with m.If(self._choose):
                m.d.sync += row.eq(self._of_chosen(self._first, rows))
            m.d.comb += write.payload.row[0].eq(row)
            threads = [self._first]
        else:
            m.d.comb += write.payload.row.eq(read.payload.row)
        with m.If(free):
            m.d.sync += [read.valid.eq(self._choose & self._first.any() & ~store), write.valid.eq(self._choose & self._first.any() & store)]
        self._store_data(m, threads)
        return free

    def _mask(self, slot):
        """Bytes of a word that a thread stores to."""
        low, access = self._address[slot], self._current.access
        is_byte = (access == Access.U8) | (access == Access.S8)
        is_half = (access == Access.U16) | (access == Access.S16)
        half = Mux(low[1], 0b1100, 0b0011)
        return Mux(is_byte, half & Mux(low[0], 0b1010, 0b0101), Mux(is_half, half, 0b1111))

    def _store_data(self, m, threads):
        """Data and masks of the lines of a write request; ``threads``: selected thread of each line, one-hot."""
        masks = [Signal(4, name=f"mask_of_slot_{slot}") for slot in range(self.slots)]
        m.d.comb += [mask.eq(self._mask(slot)) for slot, mask in enumerate(masks)]
        write = self.bank_write.request.payload
        for line, chosen in enumerate(threads):
            data, mask, word = (Signal(width, name=f"{name}_{line}", reset_less=True)
                                for name, width in (("written", 32), ("mask", 4), ("word", 2)))
            with m.If(self._choose):
                m.d.sync += [
                    data.eq(self._of_chosen(chosen, list(self._current.data))),
                    mask.eq(self._of_chosen(chosen, masks)),
                    word.eq(self._of_chosen(chosen, [address[2:4] for address in self._address]) | self._current.word),
                ]
            m.d.comb += [
                write.data[line].eq(data.replicate(BANK_BYTES // 4)),
                write.mask[line].eq(Cat(mask & (word == number).replicate(4) for number in range(BANK_BYTES // 4))),
            ]

    def _track(self, m):
        """Follows the requests up to their answers; returns whether a request of the present group may be made."""
        current, answer = self._current, self.bank_read.answer
        m.submodules.requests = requests = Queue(_request_layout(self.cfg), self.cfg.shared_requests)
        entry, oldest = requests.i.payload, requests.o.payload
        storing = Signal(name="storing")        # the last request was a store, so all that are in flight are
        m.d.comb += [
            requests.i.valid.eq(self._choose & self._first.any()),
            entry.slots.eq(Mux(current.store, 0, self._served)), entry.group.eq(current.group), entry.operation.eq(current.operation),
            *(place.eq(address[:7]) for place, address in zip(entry.place, self._address, strict=True)),
            requests.o.ready.eq((answer.valid & answer.payload.last) | self.bank_write.written),
            self.arrived.group.eq(oldest.group),
        ]
        if self.cfg.gather_offsets:
            m.d.comb += [
                entry.element.eq(current.word), entry.size.eq(current.size),
                self.arrived.element.eq(oldest.element), self.arrived.size.eq(oldest.size),
            ]
        with m.If(requests.i.valid):
            m.d.sync += storing.eq(current.store)
        for slot, (port, place) in enumerate(zip(self.place, oldest.place, strict=True)):
            arrives = answer.valid & oldest.slots[slot]
            m.d.comb += [
                port.bank.eq(Cat(arrives & answer.payload.bank[bank] & (place.bank == bank) for bank in range(BANKS))),
                port.offset.eq(place.offset), self.arrived.slots[slot].eq(port.bank.any()),
            ]
        waiting = self._count(m, requests)
        m.d.comb += [
            self.status.waiting.eq(waiting | Mux(self._occupied, 1 << current.operation, 0)),
            self.status.in_flight.eq(self.status.waiting | Mux(answer.valid, 1 << oldest.operation, 0)),
        ]
        return requests.i.ready & ~(waiting.any() & (storing ^ current.store))

    def _count(self, m, requests):
        """Requests in flight of each operation; returns those of which some are after this cycle."""
        begins, ends = requests.i.valid & requests.i.ready, requests.o.valid & requests.o.ready
        waiting = Signal(OPERATIONS, name="requests_waiting")
        for number in range(OPERATIONS):
            count = Signal(range(self.cfg.shared_requests + 1), name=f"requests_of_{number}")
            more, less = begins & (requests.i.payload.operation == number), ends & (requests.o.payload.operation == number)
            m.d.comb += waiting[number].eq(Mux(less, count > 1, count != 0))
            m.d.sync += count.eq(count + more - less)
        return waiting
