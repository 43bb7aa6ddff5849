"""Shared-memory LSU: coalescer and bank arbiter of a group of threads."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature

from ..constants import BANK_BYTES, BANKS
from ..interfaces.layouts import SHARED_READ_LATENCY, BankReadPort, BankWritePort
from ..isa.encoding import Access
from ..lib.onehot import select_one_hot
from ..lib.register_slice import RegisterSlice
from ..lib.stream import link
from ..parameters.thread import ThreadParameters

__all__ = ["ArrivalPort", "SharedLsu", "SharedStatusPort", "group_access_layout", "placement_layout"]

placement_layout = data.StructLayout({"bank": BANKS, "offset": 4})      # bank: one-hot


def group_access_layout(cfg):
    """Access of a group of threads to shared memory.

    ``waiting``: threads of the group that access memory. ``group``: its number. ``word``: 32-bit words above ``address``, as a store of a
    vector comes word by word. ``address``: naturally aligned byte address of each lane. ``data``: word that it stores; 8- and 16-bit data
    are in every place of the word.
    """
    slots = min(cfg.thread_slots, cfg.threads)
    return data.StructLayout({
        "waiting": slots, "group": range(cfg.thread_groups), "word": 2,
        "address": data.ArrayLayout(cfg.shared_address_bits, slots), "data": data.ArrayLayout(32, slots),
    })


def ArrivalPort(cfg):
    """Load data that arrive in a cycle, seen from the LSU.

    *Ports*:
    slots : Out(slots)
        SIMD lanes whose load data are valid in this cycle.
    group : Out(range(thread_groups))
        Their group.
    """
    return Signature({"slots": Out(min(cfg.thread_slots, cfg.threads)), "group": Out(range(cfg.thread_groups))})


def SharedStatusPort():
    """Accesses to shared memory in flight, seen from the LSU.

    *Ports*:
    requesting : Out(1)
        Requests are at the ports.
    storing : Out(1)
        These requests are stores.
    in_flight : Out(1)
        Requests or load data are in flight.
    """
    return Signature({"requesting": Out(1), "storing": Out(1), "in_flight": Out(1)})


class SharedLsu(Component):
    """Shared-memory LSU: coalesces the accesses of a group of threads and arbitrates them onto the 8 banks of 16 bytes [S0.17].

    In each cycle every bank selects its lowest waiting thread. A load also serves all waiting threads with the same 16-byte word. A
    group takes one cycle without conflicts. A load else takes as many cycles as different words of one bank, a store as many as threads of
    one bank. With ``shared_writes`` 1 a store takes one cycle for each thread.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    i : In(stream.Signature(group_access_layout(cfg)))
        Accesses of groups of threads.
    drop : In(1)
        With ``late_address_checks``: the group taken in the cycle before is void; none comes in this cycle.
    hold : In(1)
        No thread is selected.
    store, access : In(1), In(Access)
        Kind and width of the access; constant while ``occupied`` or ``status.in_flight``.
    bank_read : Out(BankReadPort(cfg))
        Reads of shared memory.
    bank_write : Out(BankWritePort(cfg))
        Writes of shared memory.
    bank_ahead : In(8)
        With ``banks_known_ahead``: banks that grant nothing in the next cycle; all others do.
    arrived : Out(ArrivalPort(cfg))
        Lanes whose load data are at ``bank_read.data`` in this cycle.
    place : Out(placement_layout).array(slots)
        Bank (none for other lanes) and byte offset of their data.
    occupied : Out(1)
        Threads of a group have not been selected.
    status : Out(SharedStatusPort())
        Requests and load data in flight.
    event_conflicts : Out(1)
        A thread waits for a bank in this cycle.

    *Latency*: from taking a group to its requests at the ports two cycles, with ``far_registers`` three. Load data come
    ``SHARED_READ_LATENCY`` (1) cycles after the grant.

    *Throughput*: one group a cycle without conflicts. Requests wait for their grants bank by bank; the next threads are selected when all
    are granted.

    *Back-pressure*: ``i.ready`` is combinational from ``hold`` and the grants; with ``far_registers`` it comes from registers. With
    ``banks_known_ahead`` nothing depends on the grants, because the banks that refuse are predicted by ``bank_ahead``.

    *Reset*: no group or request is in flight.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        self.slots = slots = min(cfg.thread_slots, cfg.threads)
        super().__init__({
            "i": In(stream.Signature(group_access_layout(cfg))),
            "hold": In(1),
            "store": In(1),
            "access": In(Access),
            "bank_read": Out(BankReadPort(cfg)),
            "bank_write": Out(BankWritePort(cfg)),
            "arrived": Out(ArrivalPort(cfg)),
            "place": Out(placement_layout).array(slots),
            "occupied": Out(1),
            "status": Out(SharedStatusPort()),
            "event_conflicts": Out(1),
        } | ({"drop": In(1)} if cfg.late_address_checks else {}) | ({"bank_ahead": In(BANKS)} if cfg.banks_known_ahead else {}))

    def elaborate(self, platform):
        m = Module()
        self._one_write = self.cfg.shared_writes == 1
        self._occupied = Signal(name="group_occupied")
        self._incoming = self._enter(m)
        self._take = Signal(name="take")                        # a group comes
        self._choose = Signal(name="choose")                    # requests of the selected threads go to the ports
        self._waiting = Signal(self.slots, name="still_waiting")
        self._group = Signal(range(self.cfg.thread_groups), name="current_group", reset_less=True)
        self._address = [Signal(self.cfg.shared_address_bits, name=f"address_{slot}", reset_less=True)
                         for slot in range(self.slots)]
        self._data = [Signal(32, name=f"data_{slot}", reset_less=True) for slot in range(self.slots)]
        self._word = Signal(2, name="current_word", reset_less=True)
        self._same_bank, self._same_word = self._compare(m)
        self._first = Signal(self.slots, name="first")          # selected by its bank
        self._served = Signal(self.slots, name="served")        # selected, or a load of the same word
        self._select(m)
        granted = self._request(m)
        self._return(m, granted)
        return m

    def _enter(self, m):
        """The stream of groups that come; its owner drives its ``ready``."""
        if not self.cfg.far_registers:
            m.d.comb += self.occupied.eq(self._occupied)
            return self.i
        m.submodules.buffer = buffer = RegisterSlice(group_access_layout(self.cfg), drops=self.cfg.late_address_checks)
        if self.cfg.late_address_checks:
            m.d.comb += buffer.drop.eq(self.drop)
        link(m, self.i, buffer.i)
        m.d.comb += self.occupied.eq(self._occupied | buffer.o.valid)
        return buffer.o

    def _compare(self, m):
        """Registered comparisons of the banks and the words of each pair of SIMD lanes."""
        same_bank, same_word, address = {}, {}, self._incoming.payload.address
        for high in range(self.slots):
            for low in range(high):
                bank = same_bank[low, high] = Signal(name=f"same_bank_{low}_{high}", reset_less=True)
                word = same_word[low, high] = Signal(name=f"same_word_{low}_{high}", reset_less=True)
                with m.If(self._take):
                    m.d.sync += [
                        # With one write bus all stores conflict, as if they had one bank.
                        bank.eq((address[low][4:7] == address[high][4:7]) | (self.store & self._one_write)),
                        word.eq((address[low][4:] == address[high][4:]) & ~self.store),
                    ]
        return same_bank, same_word

    def _select(self, m):
        left = self._waiting & ~self._served
        for slot in range(self.slots):
            blocked = [self._waiting[low] & self._same_bank[low, slot] for low in range(slot)]
            shared = [self._first[low] & self._same_word[low, slot] for low in range(slot)]
            m.d.comb += [
                self._first[slot].eq(self._waiting[slot] & ~Cat(blocked).any()),
                self._served[slot].eq(self._first[slot] | (self._waiting[slot] & Cat(shared).any())),
            ]
        m.d.comb += [
            self._incoming.ready.eq(~self._occupied | (self._choose & ~left.any())),
            self._take.eq(self._incoming.valid & self._incoming.ready),
        ]
        with m.If(self._choose):
            m.d.sync += [self._waiting.eq(left), self._occupied.eq(left.any())]
        with m.If(self._take):
            taken = self._incoming.payload
            m.d.sync += [self._waiting.eq(taken.waiting), self._occupied.eq(1), self._group.eq(taken.group), self._word.eq(taken.word)]
            for slot in range(self.slots):
                m.d.sync += [self._address[slot].eq(taken.address[slot]), self._data[slot].eq(taken.data[slot])]

    def _mask(self, slot):
        """Bytes of a word that a thread stores to."""
        low = self._address[slot]
        is_byte = (self.access == Access.U8) | (self.access == Access.S8)
        is_half = (self.access == Access.U16) | (self.access == Access.S16)
        half = Mux(low[1], 0b1100, 0b0011)
        return Mux(is_byte, half & Mux(low[0], 0b1010, 0b0101), Mux(is_half, half, 0b1111))

    def _request(self, m):
        """Requests of the selected threads to the banks; returns the banks whose loads are granted in this cycle."""
        loads, stores = Signal(BANKS), Signal(BANKS)
        rows = [Signal(self.cfg.row_bits, name=f"row_{bank}", reset_less=True) for bank in range(BANKS)]
        may_load, may_store, denied = self.bank_read.grant, self.bank_write.grant, Signal(name="denied")
        if self.cfg.banks_known_ahead:      # one request at a time
            may_load = may_store = ~denied.replicate(BANKS)
        else:
            m.d.comb += denied.eq((loads & ~may_load).any() | (stores & ~may_store).any())
        m.d.comb += self._choose.eq(self._occupied & ~self.hold & ~denied)
        m.d.sync += [loads.eq(loads & ~may_load), stores.eq(stores & ~may_store)]
        all_chosen = []
        for bank in range(BANKS):
            chosen = Signal(self.slots, name=f"chosen_{bank}")
            all_chosen.append(chosen)
            m.d.comb += [chosen[slot].eq(self._first[slot] & (self._address[slot][4:7] == bank))
                         for slot in range(self.slots)]

            def of_chosen(values, chosen=chosen):
                """Value of the thread of this bank; with one SIMD lane it is undefined without one."""
                return values[0] if self.slots == 1 else select_one_hot(chosen, values)

            with m.If(self._choose):
                m.d.sync += [
                    loads[bank].eq(chosen.any() & ~self.store),
                    stores[bank].eq(chosen.any() & self.store),
                    rows[bank].eq(of_chosen([address[7:] for address in self._address])),
                ]
            m.d.comb += self.bank_read.row[bank].eq(rows[bank])
        if self.cfg.banks_known_ahead:
            asked = Mux(self._choose, Cat(chosen.any() for chosen in all_chosen), Mux(denied, loads | stores, 0))
            m.d.sync += denied.eq((asked & self.bank_ahead).any())
        self._write(m, rows, all_chosen)
        m.d.comb += [
            self.bank_read.request.eq(loads), self.bank_write.request.eq(stores),
            self.event_conflicts.eq((self._choose & (self._waiting & ~self._served).any()) | denied),
        ]
        # Registered functions of the requests of the next cycle.
        m.d.sync += [self.status.requesting.eq(Mux(self._choose, self._first.any(), denied)),
                     self.status.storing.eq(Mux(self._choose, self._first.any() & self.store, (stores & ~may_store).any()))]
        return loads & may_load

    def _write(self, m, rows, chosen):
        """Rows, data and masks of stores; with one bus the same for all banks."""
        port = self.bank_write

        def of_chosen(slots, values):
            """Value of the selected thread. With one SIMD lane the value is undefined without one, which avoids a reset of all registers.
            """
            return values[0] if self.slots == 1 else select_one_hot(slots, values)

        if self._one_write:
            row = Signal(self.cfg.row_bits, name="stored_row", reset_less=True)
            with m.If(self._choose):
                m.d.sync += row.eq(of_chosen(self._first, [address[7:] for address in self._address]))
            rows, chosen = [row], [self._first]
        masks = [Signal(4, name=f"mask_of_slot_{slot}") for slot in range(self.slots)]
        m.d.comb += [mask.eq(self._mask(slot)) for slot, mask in enumerate(masks)]
        words = []
        for bank, slots in enumerate(chosen):
            data, mask, word = (Signal(width, name=f"{name}_{bank}", reset_less=True)
                                for name, width in (("written", 32), ("mask", 4), ("word", 2)))
            with m.If(self._choose):
                m.d.sync += [
                    data.eq(of_chosen(slots, self._data)),
                    mask.eq(of_chosen(slots, masks)),
                    word.eq(of_chosen(slots, [address[2:4] for address in self._address]) | self._word),
                ]
            words.append((data.replicate(BANK_BYTES // 4),
                          Cat(mask & (word == number).replicate(4) for number in range(BANK_BYTES // 4))))
        for bank in range(BANKS):
            data, mask = words[bank % len(words)]
            m.d.comb += [port.row[bank].eq(rows[bank % len(rows)]), port.data[bank].eq(data), port.mask[bank].eq(mask)]

    def _return(self, m, granted):
        """Tracks the granted loads up to their data."""
        places = [Signal(placement_layout, name=f"place_{slot}", reset_less=True) for slot in range(self.slots)]
        slots = Signal(self.slots)
        group = Signal.like(self._group, name="requested_group")
        with m.If(self._choose):
            m.d.sync += [slots.eq(self._served), group.eq(self._group)]
            for slot in range(self.slots):
                m.d.sync += [places[slot].bank.eq(1 << self._address[slot][4:7]), places[slot].offset.eq(self._address[slot][:4])]
        now = Cat(slots[slot] & (granted & places[slot].bank).any() for slot in range(self.slots))
        flying = []
        for stage in range(SHARED_READ_LATENCY):
            next_slots = Signal(self.slots, name=f"flying_{stage}")
            next_group = Signal.like(group, name=f"flying_group_{stage}", reset_less=True)
            next_places = [Signal(placement_layout, name=f"flying_place_{stage}_{slot}", reset_less=True)
                           for slot in range(self.slots)]
            m.d.sync += [next_slots.eq(now), next_group.eq(group)]
            for slot, (before, after) in enumerate(zip(places, next_places)):
                m.d.sync += [after.offset.eq(before.offset), after.bank.eq(Mux(now[slot], before.bank, 0))]
            now, group, places = next_slots, next_group, next_places
            flying.append(now)
        m.d.comb += [
            self.arrived.slots.eq(now), self.arrived.group.eq(group),
            self.status.in_flight.eq(self.status.requesting | Cat(flying).any()),
        ]
        m.d.comb += [port.eq(place) for port, place in zip(self.place, places, strict=True)]
