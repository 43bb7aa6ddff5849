"""Fetch of B: from operations to words and steps for the PEs."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from ..interfaces.datapath import step_layout
from ..interfaces.layouts import ErrorStream, OffsetReadPort, OffsetWritePort, SharedReadPort, matrix_operation_layout
from ..isa.compiled_offsets import uniform_layout
from ..lib.members import connect_members
from ..lib.stream import Queue
from ..parameters.matrix import MatrixParameters
from .address_generator import AddressGenerator
from .bank_request import BankRequest
from .bank_scheduler import BankScheduler
from .layouts import word_request_layout
from .loop_sequencer import LoopSequencer
from .merge_split import MergeSplit
from .offset_memory import OffsetMemory
from .transpose_fetch import TransposeFetch
from .word_select import WordSelect

__all__ = ["REQUESTS_AHEAD", "BFetch"]

REQUESTS_AHEAD = 2      # requests without their last answer: one a cycle at the least latency of shared memory


class BFetch(Component):
    """Fetch of B: reads the words of B of one operation after the other from shared memory and broadcasts them to the PEs.

    Each stage is a stream to the next. In front of the banks: loop sequencer, merge split, address generator, transpose fetch (with
    ``transpose``), bank scheduler, bank request. Behind them: a queue of rounds, word selection with the broadcast network. The PEs hold
    the words of a step until the step is complete, and take every step at once. So there is no queue behind the banks.

    Parameters
    ----------
    cfg : MatrixParameters

    *Ports*:
    i : In(stream.Signature(matrix_operation_layout(cfg)))
        Operations.
    stop : In(1)
        Operations end early.
    offset_read : Out(OffsetReadPort(cfg))
        Reads of the offsets of the next operation.
    offset_load : Out(1)
        The next offset of the PEs becomes ``offset``.
    offset : In(32).array(threads)
        Offset of each column.
    pause : In(1)
        In this cycle nothing is requested: a step is left out, now or before, where a bank refused.
    hold : In(1)
        From the next cycle on no bank is requested, and the stages in front of the banks hold.
    bank : Out(SharedReadPort(cfg))
        Reads of shared memory; with one fetch slot never more than one bank.
    step : Out(step_layout(cfg))
        Step for the PEs, in the cycle in which the last of its words is in the register behind its bank.
    word : Out(signed(element_bits)).array(fetch_slots, dot)
        Words of B, one cycle later: bytes extended by their signedness. PE t looks at word t mod ``fetch_slots``. In the second pass the
        bytes of 16-bit elements are swapped; with ``wide_lanes`` every other byte is the whole element.
    take : Out(positions)
        Bit t mod ``positions``: the word of PE t is at ``word``.
    arrival : Out(1)
        Words are in the registers behind the banks.
    pending : Out(1)
        Steps of accepted operations may still come, the one at ``step`` excepted.
    conflict : Out(2)
        Waits for a bank in this cycle: one of a request that was refused in the cycle before, one of words whose bank is read again for
        the same group.
    fill_end : Out(1)
        With ``compiled_offsets``: all words of an operation with ``fill`` are in the compiled-offset memory.
    offset_write : Out(OffsetWritePort(cfg))
        With ``gather_offsets``: writes of this memory, for that of the threads.
    o_error : Out(ErrorStream())
        Errors of the address generator.

    *Latency*: 10 cycles from ``i`` to the first ``step``, 13 with several fetch slots, plus the waits for the offsets and the banks.

    *Throughput*: one step a cycle without merges, also across operations. A merged step takes one cycle for every ``fetch_slots`` words,
    and more where a bank has several rows to read.

    *Back-pressure*: ``bank.request.ready``, ``pause`` and ``hold`` hold all stages in front of the banks. ``i.ready`` comes from a
    register. At most ``REQUESTS_AHEAD`` requests are without their last answer.

    *Reset*: all operations are dropped.
    """

    def __init__(self, cfg):
        self.cfg = cfg = MatrixParameters.of(cfg)
        super().__init__({
            "i": In(stream.Signature(matrix_operation_layout(cfg))),
            "stop": In(1),
            "offset_read": Out(OffsetReadPort(cfg)),
            "offset_load": Out(1),
            "offset": In(32).array(cfg.threads),
            "pause": In(1),
            "hold": In(1),
            "bank": Out(SharedReadPort(cfg)),
            "step": Out(step_layout(cfg)),
            "word": Out(signed(cfg.element_bits)).array(cfg.fetch_slots, cfg.dot),
            "take": Out(cfg.positions),
            "arrival": Out(1),
            "pending": Out(1),
            "conflict": Out(2),
            **({"fill_end": Out(1)} if cfg.compiled_offsets else {}),
            **({"offset_write": Out(OffsetWritePort(cfg))} if cfg.gather_offsets else {}),
            "o_error": Out(ErrorStream()),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.sequencer = sequencer = LoopSequencer(self.cfg)
        m.submodules.groups = groups = MergeSplit(self.cfg)
        m.submodules.address = address = AddressGenerator(self.cfg)
        m.submodules.scheduler = scheduler = BankScheduler(self.cfg)
        m.submodules.bank_request = bank_request = BankRequest(self.cfg)
        m.submodules.requests = requests = Queue(word_request_layout(self.cfg), REQUESTS_AHEAD)
        m.submodules.words = words = WordSelect(self.cfg)
        connect(m, sequencer.o, groups.i)
        connect(m, groups.o, address.i)
        connect(m, scheduler.o, bank_request.i)
        connect(m, bank_request.o, requests.i)
        connect(m, requests.o, words.i)
        connect(m, bank_request.request, flipped(self.bank.request))
        connect(m, flipped(self.bank.answer), words.answer)
        connect_members(m, flipped(self), sequencer, ("i", "stop", "offset_read"))
        connect_members(m, groups, sequencer, ("offset_wait",))
        connect_members(m, flipped(self), groups, ("offset_load",))
        connect_members(m, flipped(self), address, ("offset", "o_error"))
        connect_members(m, flipped(self), bank_request, ("pause", "hold"))
        connect_members(m, flipped(self), words, ("step", "word", "take", "arrival"))
        if self.cfg.compiled_offsets:
            self._offsets(m, sequencer, groups, address, words)
        asked = Signal()        # words or steps are in flight behind the address generator
        of_pieces = Const(0)    # steps with transposed B wait or are in flight
        m.d.comb += [
            asked.eq(scheduler.pending | scheduler.o.payload.step.step | scheduler.o.payload.bank.any() | words.pending),
            self.conflict.eq(~self.bank.request.ready + scheduler.again),
        ]
        if self.cfg.transpose:
            m.submodules.pieces = pieces = TransposeFetch(self.cfg)
            connect(m, address.o, pieces.i)
            connect(m, pieces.o, scheduler.i)
            connect(m, pieces.o_pick, words.i_pick)
            connect_members(m, pieces, words, ("picking", "switched"))
            m.d.comb += pieces.idle.eq(~(asked | scheduler.o.payload.step.last | words.ending))
            of_pieces = pieces.pending | words.picking
        else:
            connect(m, address.o, scheduler.i)
        m.d.comb += self.pending.eq(sequencer.pending | sequencer.o.valid | address.pending | asked | of_pieces)
        return m

    def _offsets(self, m, sequencer, groups, address, words):
        """The compiled-offset memory beside the merge split: entries come with the group."""
        m.submodules.offsets = offsets = OffsetMemory(self.cfg)
        uniform = data.View(uniform_layout, sequencer.o.payload.pitch)
        connect_members(m, offsets, address, ("entries", "beyond"))
        connect_members(m, flipped(self), words, ("fill_end",))
        m.d.comb += [
            offsets.read.eq(groups.o.ready), offsets.first.eq(uniform.entry), offsets.word.eq(sequencer.o.payload.word),
            offsets.compiled.eq(sequencer.o.payload.compiled),
            offsets.write.eq(words.fill), offsets.write_word.eq(words.fill_word),
            offsets.write_data.eq(Cat(element[:8] for element in words.word[0])),
        ]
        if self.cfg.gather_offsets:
            port = self.offset_write
            m.d.comb += [port.enable.eq(offsets.write), port.word.eq(offsets.write_word), port.data.eq(offsets.write_data)]
