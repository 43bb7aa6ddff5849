"""Cache of tensor descriptors in front of setup: a descriptor is fetched once and found again by its address [S1.3]."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out
from amaranth.utils import ceil_log2, exact_log2

from ..errors import UsageError
from ..interfaces.layouts import read_data_layout, read_request_layout
from ..isa.tensor_descriptor import DESCRIPTOR_ALIGNMENT, DESCRIPTOR_BYTES, descriptor_layout, no_descriptor

__all__ = ["DescriptorCache"]

TAG_START = exact_log2(DESCRIPTOR_ALIGNMENT)
HALVES = DESCRIPTOR_BYTES // DESCRIPTOR_ALIGNMENT      # each a burst: a half never crosses 4 KiB


class DescriptorCache(Component):
    """Joins requests with their descriptors, in order.

    A hit takes one cycle. On a miss the descriptor is fetched in two bursts of 64 bytes into the entry that was filled longest ago;
    the request before it stands at ``o`` meanwhile, so that its setup and the fetch go on together. Requests whose address is no
    multiple of 64, or whose 128 bytes do not lie in global memory, are handed on with any descriptor: setup refuses them.
    ``invalidate`` forgets the descriptor of an address, also one that is being fetched: it is then used once. A fetch that global
    memory answers with an error is handed on with ``error``. Reset empties the cache (and resets memory).

    Parameters
    ----------
    cfg : Config
    entries : int
        Descriptors that are kept, a power of two of at least 2.
    shape : ShapeLike
        What a request carries besides the address.

    Members
    -------
    i : In(stream of {"address": 32, "request": shape})
    o : Out(stream of {"descriptor": descriptor_layout, "address": 32, "request": shape, "error": 1})
        ``descriptor`` is read from memory combinationally, all else registered.
    read_request, read_data : as in GlobalPort(cfg, 1)
    invalidate : In(1), invalidate_address : In(32)
    busy : Out(1)
        A request waits for its descriptor, or a fetch is under way.
    event_miss : Out(1)
        A fetch begins.
    """

    def __init__(self, cfg, shape, entries=8):
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
        index = Signal(ceil_log2(self.entries))         # of the descriptor at o
        hit_index = Signal.like(index)
        hit, illegal, free, known = Signal(), Signal(), Signal(), Signal()
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
        m.d.comb += [known.eq(hit | illegal | fetch["fetched"]), self.i.ready.eq(free & known)]
        with m.If(free):
            m.d.sync += [
                self.o.valid.eq(self.i.valid & known),
                self.o.payload.address.eq(address), self.o.payload.request.eq(self.i.payload.request),
                self.o.payload.error.eq(fetch["fetched"] & fetch["failed"]),
                index.eq(Mux(fetch["fetched"], fetch["entry"], hit_index)),
            ]
        self._contents(m, index, fetch["entry"])
        return m

    def _tag(self, address):
        return address[TAG_START:self.cfg.axi_address_bits]

    def _fetch(self, m, tags, valid, index, known):
        """Fetches the descriptor of the request at ``i``. ``fetched`` says that it is in ``entry``, until the request leaves;
        ``failed`` that a read was answered with an error."""
        entry, target = Signal.like(index, name="entry"), Signal.like(index, name="target")
        active, fetched, failed, dropped, same = Signal(), Signal(), Signal(), Signal(), Signal()
        asked, came = Signal(range(HALVES + 1)), Signal(range(HALVES))      # halves
        begin, last = Signal(), Signal()
        tag, request, answer = self._tag(self.i.payload.address), self.read_request, self.read_data
        m.d.comb += [
            begin.eq(self.i.valid & ~known & ~active & ~fetched),
            # The entry at o may be read for many cycles.
            target.eq(Mux(self.o.valid & ((entry + 1)[:len(entry)] == index), entry + 2, entry + 1)),
            request.valid.eq(active & (asked != HALVES)),
            request.payload.address.eq((tag + asked) << TAG_START),
            request.payload.beats_minus_one.eq(DESCRIPTOR_ALIGNMENT // self.cfg.axi_bytes - 1),
            request.payload.tag.eq(asked),
            answer.ready.eq(1),
            last.eq(answer.valid & answer.payload.last & (came == HALVES - 1)),
            same.eq(self.invalidate & (self._tag(self.invalidate_address) == tag)),
            self.event_miss.eq(begin), self.busy.eq(self.i.valid | self.o.valid | active),
        ]
        with m.If(begin):
            m.d.sync += [active.eq(1), entry.eq(target), asked.eq(0), came.eq(0), failed.eq(0), dropped.eq(same)]
            m.d.sync += valid.bit_select(target, 1).eq(0)
        with m.If(active):
            m.d.sync += dropped.eq(dropped | same)
            with m.If(request.valid & request.ready):
                m.d.sync += asked.eq(asked + 1)
            with m.If(answer.valid):
                m.d.sync += [came.eq(came + answer.payload.last), failed.eq(failed | answer.payload.error)]
            with m.If(last):
                keep = ~(dropped | same | failed | answer.payload.error)
                m.d.sync += [active.eq(0), fetched.eq(1), tags[entry].eq(tag), valid.bit_select(entry, 1).eq(keep)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += fetched.eq(0)
        return {"fetched": fetched, "failed": failed, "entry": entry}

    def _contents(self, m, index, entry):
        """The descriptors; beats are written as they come, those of the two halves perhaps in turns."""
        parts = 8 * DESCRIPTOR_BYTES // self.cfg.axi_data_bits
        per_half = parts // HALVES
        m.submodules.contents = contents = Memory(shape=data.ArrayLayout(self.cfg.axi_data_bits, parts), depth=self.entries, init=[])
        write, read = contents.write_port(granularity=1), contents.read_port(domain="comb")
        answer = self.read_data
        numbers = Array(Signal(range(per_half), name=f"beat_{half}") for half in range(HALVES))
        number = numbers[answer.payload.tag]
        m.d.comb += [write.addr.eq(entry), read.addr.eq(index), self.o.payload.descriptor.eq(read.data)]
        for part in range(parts):
            m.d.comb += write.data[part].eq(answer.payload.data)
            half, beat = divmod(part, per_half)
            m.d.comb += write.en[part].eq(answer.valid & (answer.payload.tag == half) & (number == beat))
        with m.If(answer.valid):
            m.d.sync += number.eq(Mux(answer.payload.last, 0, number + 1))
