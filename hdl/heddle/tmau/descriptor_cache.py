"""Descriptor cache of the TMAU: tensor descriptors by address [S1.3]."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import ceil_log2, exact_log2

from ..errors import UsageError
from ..interfaces.layouts import read_data_layout, read_request_layout
from ..isa.tensor_descriptor import DESCRIPTOR_ALIGNMENT, DESCRIPTOR_BYTES, descriptor_layout, no_descriptor
from ..parameters.tmau import TmauParameters

__all__ = ["DescriptorCache"]

TAG_START = exact_log2(DESCRIPTOR_ALIGNMENT)
HALVES = DESCRIPTOR_BYTES // DESCRIPTOR_ALIGNMENT      # one burst each; a half never crosses 4 KiB
# Bits of the control word: mode, rank, format, interleave, swizzle and fill. They select what setup does with all other fields.
CONTROL_START, CONTROL_END = descriptor_layout["mode"].offset, descriptor_layout["fill"].offset + descriptor_layout["fill"].width


class DescriptorCache(Component):
    """Descriptor cache: joins each request with its tensor descriptor of 128 bytes, in order; fully associative [S1.3].

    A miss fetches the descriptor in two bursts of 64 bytes into the entry that was filled longest ago, except the entry at ``o``. The
    preceding request stays at ``o`` meanwhile, so its setup overlaps with the fetch. A request with an illegal address (no multiple of
    64, or 128 bytes not all in global memory) is passed on with an undefined descriptor. Setup rejects such a request.

    Parameters
    ----------
    cfg : TmauParameters
    shape : ShapeLike
        Payload of a request besides the address.
    entries : int
        Number of descriptors, a power of two of at least 2.

    *Ports*:
    i : In(stream of {"address": 32, "request": shape})
        Requests with the byte address of the descriptor.
    o : Out(stream of {"descriptor": descriptor_layout, "address": 32, "request": shape, "error": 1})
        Requests with their descriptor. ``descriptor`` is an asynchronous read of the contents; its control word and the other members are
        registered.
    read_request : Out(stream.Signature(read_request_layout(cfg, 1)))
        Read bursts; the tag is the half of the descriptor.
    read_data : In(stream.Signature(read_data_layout(cfg, 1)))
        Read data, always accepted; the two halves may be interleaved.
    invalidate : In(1)
        Invalidate the descriptor at ``invalidate_address``. A descriptor that is being fetched is used once.
    invalidate_address : In(32)
        Byte address of a descriptor.
    busy : Out(1)
        A request waits, is at ``o``, or a fetch is in flight.
    event_miss : Out(1)
        A fetch begins in this cycle.

    *Latency*: 1 cycle from ``i`` to ``o`` on a hit. On a miss ``read_request`` is valid 1 cycle after ``i``; ``o`` is valid 2 cycles
    after the last beat.

    *Throughput*: one request per cycle on hits; one miss at a time.

    *Back-pressure*: ``i.ready`` depends combinationally on the address at ``i`` and on ``o.ready``.

    *Reset*: invalidates all entries. Memory must be reset in the same cycle.

    *Errors*: ``error`` of ``o`` is set if memory answered a beat of the fetch with an error; such a descriptor is not cached. The
    constructor raises ``UsageError`` for an illegal ``entries``.

    *Source*: [S1.3].
    """

    def __init__(self, cfg, shape, entries=8):
        cfg = TmauParameters.of(cfg)
        if isinstance(entries, bool) or not isinstance(entries, int) or entries < 2 or entries & entries - 1:
            raise UsageError(f"entries must be a power of two of at least 2, not {entries!r}")
        self.cfg, self.shape, self.entries = cfg, shape, entries
        super().__init__({
            "i": In(stream.Signature(data.StructLayout({"address": 32, "request": shape}))),
            "o": Out(stream.Signature(data.StructLayout(
                {"descriptor": descriptor_layout, "address": 32, "request": shape, "error": 1}))),
            "read_request": Out(stream.Signature(read_request_layout(cfg, 1))),
            "read_data": In(stream.Signature(read_data_layout(cfg, 1))),
            "invalidate": In(1), "invalidate_address": In(32),
            "busy": Out(1), "event_miss": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        tags = Signal(data.ArrayLayout(self.cfg.axi_address_bits - TAG_START, self.entries), reset_less=True)
        valid = Signal(self.entries)
        index = Signal(ceil_log2(self.entries))         # entry at o
        hit_index = Signal.like(index)
        hit, illegal, free, resolved = Signal(), Signal(), Signal(), Signal()
        address = self.i.payload.address
        tag = self._tag(address)
        m.d.comb += [
            illegal.eq(no_descriptor(self.cfg, address)),
            free.eq(~self.o.valid | self.o.ready),
        ]
        for number in range(self.entries):
            with m.If(valid[number] & (tags[number] == tag)):
                m.d.comb += [hit.eq(1), hit_index.eq(number)]
            with m.If(self.invalidate & (tags[number] == self._tag(self.invalidate_address))):
                m.d.sync += valid[number].eq(0)
        fetch = self._fetch(m, tags, valid, index, hit | illegal)
        next_index = Signal.like(index, name="next_index")
        m.d.comb += [
            resolved.eq(hit | illegal | fetch["fetched"]), self.i.ready.eq(free & resolved),
            next_index.eq(Mux(fetch["fetched"], fetch["entry"], hit_index)),
        ]
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(self.i.valid & resolved),
                self.o.payload.address.eq(address), self.o.payload.request.eq(self.i.payload.request),
                self.o.payload.error.eq(fetch["fetched"] & fetch["failed"]),
                index.eq(next_index),
            ]
        self._contents(m, index, next_index, free, fetch["entry"])
        return m

    def _tag(self, address):
        return address[TAG_START:self.cfg.axi_address_bits]

    def _fetch(self, m, tags, valid, index, resolved):
        """Fetch of the descriptor of the request at ``i``.

        ``fetched``: the descriptor is in ``entry``, until the request is accepted. ``failed``: memory answered with an error.
        """
        entry, target = Signal.like(index, name="entry"), Signal.like(index, name="target")
        active, fetched, failed, dropped, same = Signal(), Signal(), Signal(), Signal(), Signal()
        asked, arrived = Signal(range(HALVES + 1)), Signal(range(HALVES))      # halves
        begin, last = Signal(), Signal()
        tag, request, answer = self._tag(self.i.payload.address), self.read_request, self.read_data
        m.d.comb += [
            begin.eq(self.i.valid & ~resolved & ~active & ~fetched),
            # Do not overwrite the entry at o, which setup reads for many cycles.
            target.eq(Mux(self.o.valid & ((entry + 1)[:len(entry)] == index), entry + 2, entry + 1)),
            request.valid.eq(active & (asked != HALVES)),
            request.payload.address.eq((tag + asked) << TAG_START),
            request.payload.beats_minus_one.eq(DESCRIPTOR_ALIGNMENT // self.cfg.axi_bytes - 1),
            request.payload.tag.eq(asked),
            answer.ready.eq(1),
            last.eq(answer.valid & answer.payload.last & (arrived == HALVES - 1)),
            same.eq(self.invalidate & (self._tag(self.invalidate_address) == tag)),
            self.event_miss.eq(begin), self.busy.eq(self.i.valid | self.o.valid | active),
        ]
        with m.If(begin):
            m.d.sync += [active.eq(1), entry.eq(target), asked.eq(0), arrived.eq(0), failed.eq(0), dropped.eq(same)]
            m.d.sync += valid.bit_select(target, 1).eq(0)
        with m.If(active):
            m.d.sync += dropped.eq(dropped | same)
            with m.If(request.valid & request.ready):
                m.d.sync += asked.eq(asked + 1)
            with m.If(answer.valid):
                m.d.sync += [arrived.eq(arrived + answer.payload.last), failed.eq(failed | answer.payload.error)]
            with m.If(last):
                keep = ~(dropped | same | failed | answer.payload.error)
                m.d.sync += [active.eq(0), fetched.eq(1), tags[entry].eq(tag), valid.bit_select(entry, 1).eq(keep)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += fetched.eq(0)
        return {"fetched": fetched, "failed": failed, "entry": entry}

    def _contents(self, m, index, next_index, free, entry):
        """Contents of the entries; a beat is written when received, in any interleaving of the two halves.

        Control words lie in a memory of their own, which is read a cycle earlier than the rest.
        """
        parts = 8 * DESCRIPTOR_BYTES // self.cfg.axi_data_bits
        per_half = parts // HALVES
        m.submodules.contents = contents = Memory(shape=data.ArrayLayout(self.cfg.axi_data_bits, parts), depth=self.entries, init=[])
        write, read, answer = contents.write_port(granularity=1), contents.read_port(domain="comb"), self.read_data
        numbers = Array(Signal(range(per_half), name=f"beat_{half}") for half in range(HALVES))
        number = numbers[answer.payload.tag]
        m.submodules.controls = controls = Memory(shape=CONTROL_END - CONTROL_START, depth=self.entries, init=[])
        write_control, read_control = controls.write_port(), controls.read_port(domain="comb")
        control = Signal(controls.shape, reset_less=True)
        with m.If(free):
            m.d.sync += control.eq(read_control.data)
        bits, (part, start) = read.data.as_value(), divmod(CONTROL_START, self.cfg.axi_data_bits)
        m.d.comb += [
            write.addr.eq(entry), read.addr.eq(index), write_control.addr.eq(entry), read_control.addr.eq(next_index),
            write_control.en.eq(write.en[part]), write_control.data.eq(answer.payload.data[start:]),
            self.o.payload.descriptor.as_value().eq(Cat(bits[:CONTROL_START], control, bits[CONTROL_END:])),
        ]
        for part in range(parts):
            m.d.comb += write.data[part].eq(answer.payload.data)
            half, beat = divmod(part, per_half)
            m.d.comb += write.en[part].eq(answer.valid & (answer.payload.tag == half) & (number == beat))
        with m.If(answer.valid):
            m.d.sync += number.eq(Mux(answer.payload.last, 0, number + 1))
