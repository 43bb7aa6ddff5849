"""Global LSU: loads and stores of single threads in global memory."""

from amaranth import *
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, Signature
from amaranth.utils import exact_log2

from ..interfaces.layouts import PC_BITS, GlobalPort
from ..isa.encoding import Access
from ..lib.onehot import select_one_hot
from ..lib.stream import Queue
from ..parameters.thread import ThreadParameters

__all__ = ["GlobalLsu", "ReadErrorPort", "WriteErrorStream", "loaded_thread_layout", "thread_access_layout"]

IN_FLIGHT = 16              # loads outstanding at most, and stores outstanding at most
QUAD_BYTES = 16


def _lane(cfg):
    """Group and SIMD lane of a thread."""
    return {"group": range(cfg.thread_groups), "slot": range(min(cfg.thread_slots, cfg.threads))}


def thread_access_layout(cfg):
    """Access of a thread to global memory: its naturally aligned byte address, its group and SIMD lane.

    ``data``: word of a store; 8- and 16-bit data are in every place of the word. ``word``: its number. ``last_word``: it is the last of the
    thread.
    """
    return data.StructLayout({"address": 32, **_lane(cfg), "data": 32, "word": 2, "last_word": 1})


def loaded_thread_layout(cfg):
    """Load data of a thread: the 16 bytes around its address, its group and SIMD lane, and the byte offset of its address in them."""
    return data.StructLayout({"data": 8 * QUAD_BYTES, **_lane(cfg), "offset": 4})


def ReadErrorPort():
    """First load that memory answered with an error, seen from the LSU.

    *Ports*:
    error : Out(1)
        Memory answered a load with an error since ``clear``.
    address : Out(32)
        Byte address of the first such thread.
    clear : In(1)
        Clears ``error``.
    """
    return Signature({"error": Out(1), "address": Out(32), "clear": In(1)})


def WriteErrorStream():
    """Stores of threads that memory answered with an error: program counter and byte address; always ready."""
    return stream.Signature(data.StructLayout({"pc": PC_BITS, "address": 32}), always_ready=True)


class GlobalLsu(Component):
    """Global LSU: one memory request for each thread, loads in order, stores posted [S0.17].

    A thread is one beat of the bus; 16 bytes on a bus of 64 bits are a burst of two beats. Up to 16 loads and 16 stores are outstanding. A
    load waits until all earlier stores are acknowledged.

    Parameters
    ----------
    cfg : ThreadParameters
        ``slots`` is ``min(thread_slots, threads)``, the number of SIMD lanes.

    *Ports*:
    i : In(stream.Signature(thread_access_layout(cfg)))
        Threads of a load, or 32-bit words of a store.
    drop : In(1)
        The item that was taken in the cycle before is void.
    store, access, pc : In(1), In(Access), In(PC_BITS)
        Kind, width and program counter; constant while ``i.valid`` or ``occupied``.
    port : Out(GlobalPort(cfg, cfg.tag_bits))
        Global memory; all requests have tag 0, so answers come in order.
    o : Out(stream.Signature(loaded_thread_layout(cfg), always_ready=True))
        Load data of threads, in the order of their loads.
    occupied : Out(1)
        Loads are outstanding or at ``o``, or a word of a store waits in the register behind ``i`` after this cycle.
    read_error : Out(ReadErrorPort())
        First load with an error.
    writes_pending : Out(1)
        Stores are not acknowledged.
    hold_errors : In(1)
        Write responses are not taken.
    o_write_error : Out(WriteErrorStream())
        Stores that memory answered with an error.

    *Latency*: a load is at ``port`` one cycle after it was taken, a store two cycles after its last word; ``o.valid`` is one cycle after
    the last beat of the answer.

    *Throughput*: one thread of a load, or one word of a store, a cycle.

    *Back-pressure*: ``i.ready`` is combinational from ``store``, ``drop`` and ``ready`` of ``read_request``, ``write_request`` and
    ``write_data``.

    *Reset*: nothing is outstanding.

    *Errors*: reported by the ports above, none of its own.
    """

    def __init__(self, cfg):
        self.cfg = cfg = ThreadParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(thread_access_layout(cfg))),
            "drop": In(1),
            "store": In(1),
            "access": In(Access),
            "pc": In(PC_BITS),
            "port": Out(GlobalPort(cfg, cfg.tag_bits)),
            "o": Out(stream.Signature(loaded_thread_layout(cfg), always_ready=True)),
            "occupied": Out(1),
            "read_error": Out(ReadErrorPort()),
            "writes_pending": Out(1),
            "hold_errors": In(1),
            "o_write_error": Out(WriteErrorStream()),
        })

    def elaborate(self, platform):
        m = Module()
        self._two_beats = Signal(name="two_beats")
        if self.cfg.axi_bytes < QUAD_BYTES:
            m.d.comb += self._two_beats.eq(self.access == Access.V4)
        self._valid, self._gone = Signal(name="thread_valid"), Signal(name="thread_gone")
        self._thread = Signal(thread_access_layout(self.cfg), name="thread", reset_less=True)
        wants = Signal(name="thread_wants")
        m.d.comb += [wants.eq(self._valid & ~self.drop), self.i.ready.eq(~wants | self._gone)]
        with m.If(self.i.ready):
            m.d.sync += [self._valid.eq(self.i.valid), self._thread.eq(self.i.payload)]
        loaded, loading = self._load_requests(m, wants & ~self.store)
        stored = self._store_requests(m, wants & self.store)
        m.d.comb += [self._gone.eq(loaded | stored), self.occupied.eq(loading | (self._valid & ~(self.store & self._gone)))]
        return m

    def _beat_address(self):
        low = self.cfg.axi_bytes.bit_length() - 1
        return Cat(C(0, low), self._thread.address[low:self.cfg.axi_address_bits])

    # -- loads ------------------------------------------------------------------------------

    def _load_requests(self, m, wants):
        """Requests the load of the thread; returns whether it is requested in this cycle, and whether loads are outstanding."""
        cfg, request, answer, item = self.cfg, self.port.read_request, self.port.read_data, self._thread
        # Ready for an answer in the cycle after its request.
        m.submodules.loads = loads = Queue(data.StructLayout({"address": 32, **_lane(cfg)}), IN_FLIGHT, registered=False)
        m.d.comb += [
            request.valid.eq(wants & loads.i.ready & ~self.writes_pending), request.payload.address.eq(self._beat_address()),
            request.payload.beats_minus_one.eq(self._two_beats),
            loads.i.valid.eq(request.valid & request.ready),
            *(loads.i.payload[name].eq(item[name]) for name in ("address", "group", "slot")),
            answer.ready.eq(loads.o.valid),
            loads.o.ready.eq(answer.valid & answer.payload.last),
        ]
        thread, beat = loads.o.payload, answer.payload.data
        arrived = answer.valid & answer.ready
        if cfg.axi_bytes < QUAD_BYTES:
            earlier = Signal(cfg.axi_data_bits, reset_less=True)
            with m.If(arrived):
                m.d.sync += earlier.eq(beat)
            quad = Cat(Mux(self._two_beats, earlier, beat), beat)
        else:
            quads = [beat.word_select(index, 8 * QUAD_BYTES) for index in range(cfg.axi_bytes // QUAD_BYTES)]
            index = thread.address[4:4 + exact_log2(len(quads))]
            quad = select_one_hot(Cat(index == place for place in range(len(quads))), quads)
        m.d.sync += self.o.valid.eq(arrived & answer.payload.last)
        for name, value in (("data", quad), ("group", thread.group), ("slot", thread.slot), ("offset", thread.address[:4])):
            loaded = Signal(value.shape(), name=f"loaded_{name}")
            m.d.sync += loaded.eq(value)
            m.d.comb += self.o.payload[name].eq(loaded)
        first = self.read_error
        with m.If(arrived & answer.payload.error & ~first.error):
            m.d.sync += [first.error.eq(1), first.address.eq(thread.address)]
        with m.If(first.clear):
            m.d.sync += first.error.eq(0)
        return loads.i.valid, (loads.level != 0) | self.o.valid

    # -- stores -----------------------------------------------------------------------------

    def _store_requests(self, m, wants):
        """Collects the words of a thread and requests their store; returns whether the word is taken in this cycle."""
        request, written, word = self.port.write_request, self.port.write_data, self._thread
        m.submodules.stores = stores = Queue(data.StructLayout({"address": 32, "pc": PC_BITS}), IN_FLIGHT)
        sending = Signal()              # write data of a thread are at the port
        more = Signal()                 # the first of two beats is at the port
        take = Signal()
        m.d.comb += [
            take.eq(wants & (~request.valid | request.ready) & (~sending | (written.ready & ~more)) & stores.i.ready),
            stores.i.valid.eq(take & word.last_word),
            stores.i.payload.address.eq(word.address), stores.i.payload.pc.eq(self.pc),
            written.valid.eq(sending),
        ]
        with m.If(request.ready):
            m.d.sync += request.valid.eq(0)
        with m.If(written.ready):
            m.d.sync += [sending.eq(more), more.eq(0)]
        with m.If(take & word.last_word):
            m.d.sync += [request.valid.eq(1), request.payload.address.eq(self._beat_address()),
                         request.payload.beats_minus_one.eq(self._two_beats), sending.eq(1), more.eq(self._two_beats)]
        self._store_data(m, take, more)

        answer, error = self.port.write_response, self.o_write_error
        m.d.comb += [
            answer.ready.eq(stores.o.valid & ~self.hold_errors),
            stores.o.ready.eq(answer.valid & ~self.hold_errors),
            error.valid.eq(answer.valid & answer.ready & answer.payload.error),
            error.payload.pc.eq(stores.o.payload.pc), error.payload.address.eq(stores.o.payload.address),
            self.writes_pending.eq((stores.level != 0) | request.valid | sending),
        ]
        return take

    def _store_data(self, m, take, more):
        """16 bytes of data with their strobes, at every place of the beat; the strobes select one."""
        cfg, written, item = self.cfg, self.port.write_data, self._thread
        words = [Signal(32, name=f"word_{number}", reset_less=True) for number in range(4)]
        strobe = Signal(QUAD_BYTES, reset_less=True)
        high = Signal(max(cfg.axi_bytes // QUAD_BYTES, 1).bit_length(), reset_less=True)
        offset, wanted = item.address[:4], Signal(QUAD_BYTES)
        with m.Switch(self.access):
            for access, mask in ((Access.U8, 0x1), (Access.U16, 0x3), (Access.B32, 0xf), (Access.V2, 0xff)):
                with m.Case(access):
                    m.d.comb += wanted.eq(C(mask, QUAD_BYTES) << offset)
            with m.Default():
                m.d.comb += wanted.eq(~0)
        pair = self.access.as_value() == Access.V2.value
        for number in range(4):
            mine = ((self.access == Access.V4) & (item.word == number)) | (
                pair & (item.word == number % 2)) | ((self.access != Access.V4) & ~pair)
            with m.If(take & mine):
                m.d.sync += words[number].eq(item.data)
        with m.If(take):
            m.d.sync += [strobe.eq(wanted), high.eq(item.address[4:])]
        if cfg.axi_bytes < QUAD_BYTES:
            second = Signal(reset_less=True)        # the upper eight bytes
            with m.If(take):
                m.d.sync += second.eq(item.address[3])
            with m.Elif(written.ready):
                m.d.sync += second.eq(1)
            m.d.comb += [
                written.payload.data.eq(Mux(second, Cat(*words[2:]), Cat(*words[:2]))),
                written.payload.strobe.eq(Mux(second, strobe[8:], strobe[:8])),
                written.payload.last.eq(~more),
            ]
        else:
            places = cfg.axi_bytes // QUAD_BYTES
            index = high[:places.bit_length() - 1]
            m.d.comb += [
                written.payload.data.eq(Cat(*words).replicate(places)),
                written.payload.strobe.eq(Cat(Mux(index == place, strobe, 0)[:QUAD_BYTES] for place in range(places))),
                written.payload.last.eq(1),
            ]
