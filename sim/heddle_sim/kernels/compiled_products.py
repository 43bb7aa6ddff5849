"""Products of a compiled convolution: the weights of the lanes, the entries of the offsets, and the ``mm`` of a tile [S2.3].

Where the factor registers hold the filters of all lanes, weights stay there for all tiles of these filters. Longer ones are streamed: each
tile loads them again, a part at a time, into two places of the factor registers in turn. The sums stay in the product registers.
"""

from __future__ import annotations

from abc import abstractmethod

from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, ROW_BYTES
from heddle.isa.compiled_offsets import OFFSET_BITS

from .compiled_plan import CompiledConvolutionPlan
from .parts.offset_window import ENTRY_BYTES
from .parts.text import KernelText

__all__ = ["ENTRIES", "LOCAL", "CompiledProducts"]

_WEIGHTS = (2, 3, 4, 5)                 # barriers
ENTRIES, LOCAL = (0, 3, 4, 5), 2        # segments: the band for each group, all of shared memory
_REFILL = ENTRIES[1]                    # segment of the entries of a part of streamed filters, which have one group


class CompiledProducts(CompiledConvolutionPlan):
    """Loads and multiplications of a ``CompiledConvolutionKernel``, whose registers and predicates these are."""

    text: KernelText
    weight_place: int                   # register: where a thread finds its weights in a slot

    @abstractmethod
    def _own(self, name: str) -> str:
        """Number of ``bands``, tiles of ``filters`` or ``pixels`` of a core: a number, or its register."""

    # -- weights ----------------------------------------------------------------------------

    def _copy_chunk(self, number: int) -> None:
        """Copy of a chunk of the weights of the filters ``w`` to its slot; the last one may be shorter."""
        text, nbytes, slot = self.text, self.chunks[number] * self.cfg.dot, number % len(self.slots)
        last = number and nbytes < self.chunks[0] * self.cfg.dot
        if last:
            text(f"    umov {{w_blocks}}, {nbytes // BANK_BYTES}")
        text(f"    uadd {{chunk}}, {{w}}, {number * self.chunk_words * self.cfg.dot}",
             f"    barrier.expect b{_WEIGHTS[slot]}, {nbytes * self.cfg.threads}",
             f"    copy_rows.shared.global {{slot_{slot}}}, {{chunk}}, {{w_blocks}}, b{_WEIGHTS[slot]}")
        if last:
            text(f"    umov {{w_blocks}}, {self.chunks[0] * self.cfg.dot // BANK_BYTES}")

    def _copy_first_chunks(self) -> None:
        for number in range(min(len(self.slots) - 1, len(self.chunks))):
            self._copy_chunk(number)

    def _factors(self, word: int, half: bool) -> int:
        """Factor register of a word of the filters."""
        return FIRST_FACTOR_REGISTER + (word + half * self.half_words) * self.cfg.numbers_per_word

    def _load_weights(self, half: bool) -> None:
        """All chunks of the filters, each when it has come; the copy three chunks ahead goes where the chunk before has been read."""
        for number in range(len(self.chunks)):
            self._load_chunk(number, half)

    def _load_chunk(self, number: int, half: bool) -> None:
        loads = self.chunks[number] * self.cfg.dot // BANK_BYTES
        slot, first = number % len(self.slots), self._factors(number * self.chunk_words, half)
        self.text(f"    barrier.wait b{_WEIGHTS[slot]}",
                  *(f"    ld.v4 r{first + 4 * part}, ur{LOCAL}:r{self.weight_place}:{self.slots[slot] + BANK_BYTES * part}"
                    for part in range(loads)))
        if number + len(self.slots) - 1 < len(self.chunks):
            if number:
                self.text(f"    wait_thread {loads}")
            self._copy_chunk(number + len(self.slots) - 1)

    def _load_together(self, first: int) -> None:
        """``together`` chunks from ``first`` on, for the first tile of some filters, which goes on behind it."""
        self.text(f"load_{first}:")
        for number in range(first, min(first + self.together, len(self.chunks))):
            self._load_chunk(number, False)
        self.text(f"    @up0 bra loaded_{first}_1", f"    bra loaded_{first}_0")

    def _load_next(self) -> None:
        """Behind the first tile of some filters: the weights of the next ones come to the other half of the factor registers, or the first
        of them to shared memory."""
        text = self.text
        text("    usetp.eq up2, {load}, 0", "    @up2 bra loaded", "    umov {load}, 0", "    usetp.le up2, {filters}, 1",
             "    @up2 bra loaded")
        if self.together:
            self._copy_ahead()
            text("loaded:")
            return
        if not self.early:
            text(f"    usetp.lt up2, {{filters}}, {self._own('filters')}", "    @up2 bra ahead")
            self._copy_ahead()
            text("ahead:")
        text.select(("up4",), lambda half: self._load_weights(not half))
        text("loaded:")

    def _copy_ahead(self) -> None:
        """Copies of the first chunks of the filters behind ``w``, when the threads have read those before."""
        self.text(f"    uadd {{w}}, {{w}}, {self.cfg.threads * self.weight_pitch}", "    wait.thread")
        self._copy_first_chunks()

    # -- products ---------------------------------------------------------------------------

    def _multiply(self, parity: bool, half: bool) -> None:
        """``mm`` of a tile; ``half``: where its weights are."""
        if self.streamed:
            self._multiply_streamed(parity)
            return
        begun = 0       # chunks that are loaded
        for part, name in zip(range(self.parts), ("entry", "entry_1", "entry_2", "entry_3")):
            for number, words in enumerate(self.chunk_steps):
                word = part * self.group_words + number * self.slices
                while self.together and begun * self.chunk_words < word + words:
                    self.text(f"    @up4 bra load_{begun}", f"loaded_{begun}_{int(parity)}:")
                    begun += self.together
                self._find_entries(number, parity, name)
                self._multiply_words(parity, part, words, self._factors(word, half), not number)
        if self.together:
            self.text("    usetp.ne up4, {x}, {x}")

    def _find_entries(self, number: int, parity: bool, name: str) -> None:
        """Entries of ``mm`` ``number`` of a filter: in the compiled-offset memory, and in register ``name``."""
        step = self.mm_entries
        entry = self.entries.place(number * step)
        self.text(*self.entries.lines(number * step, self.entries.refill(number * step), f"ur{LOCAL}:rf{self.zeros[parity]}",
                                      self.table + ROW_BYTES))
        follows = number and entry == self.entries.place((number - 1) * step) + step
        self.text(f"    uadd {{{name}}}, {{{name}}}, {step << OFFSET_BITS}" if follows
                  else f"    umov {{{name}}}, {self.table + (entry << OFFSET_BITS)}")

    def _multiply_words(self, parity: bool, part: int, words: int, first: int, begins: bool) -> None:
        """An ``mm`` with the factor registers from ``first`` on; ``begins``: the sums begin with it."""
        merge = f".ka{self.problem.ka}i" if self.problem.ka > 1 else ""
        product = parity * self.cfg.threads + part * self.output.part_size
        self.text(f"    @p1 mm8{merge}{self._signs()}.k{words}.{'ow' if self.by_word else 'ob'}{'.z' if begins else ''} r{product}, "
                  f"ur{ENTRIES[part]}:rf{self.offsets[parity]}:0, r{first}")

    def _signs(self) -> str:
        """``mm`` multiplies weights (A) by elements of x (B)."""
        elements = self.problem.elements
        return f".{'s' if elements.b_signed else 'u'}a.{'s' if elements.a_signed else 'u'}b"

    # -- streamed filters -------------------------------------------------------------------

    def _multiply_streamed(self, parity: bool) -> None:
        """``mm`` of a tile, a loop over two parts of the filters. Where their number is odd, the next tile begins with the other place."""
        text, turn = self.text, parity and self.stream_parts % 2 == 1
        loop, done = text.label("stream"), text.label("streamed")
        text("    umov {chunk}, {w}", "    wait.thread")
        for slot in range(self.stream_slots - 1):
            self._copy_streamed(slot)
        text(f"    umov {{parts_left}}, {self.stream_parts}", f"    umov {{entry}}, {self.table}",
             f"    umov {{refill}}, {self.table + ROW_BYTES}", "    usetp.eq up4, {x}, {x}", f"{loop}:")
        for number in range(2):
            self._multiply_part(parity, number, number ^ turn)
            text("    usub {parts_left}, {parts_left}, 1", "    usetp.gt up2, {parts_left}, 0",
                 f"    @up2 bra {loop}" if number else f"    @!up2 bra {done}")
        text(f"{done}:")

    def _multiply_part(self, parity: bool, number: int, place: int) -> None:
        """A part of the filters, in one of the two places: weights, chunk by chunk, entries, and ``mm``. One that waits for its loads
        would hold those before it."""
        text, chunk, chunks = self.text, self.chunk_words, self.part_words // self.chunk_words
        loads = chunk * self.cfg.dot // BANK_BYTES
        text("    usetp.gt up2, {parts_left}, 1")
        if self.entries.window:
            text(f"    segment.shared.b8.d1 ur{_REFILL}, {{refill}}",
                 f"    uadd {{refill}}, {{refill}}, {ENTRY_BYTES * self.entries.entries}")
        for index in range(chunks):
            slot = (number * chunks + index) % self.stream_slots
            first = self._factors(place * self.part_words + index * chunk, False)
            text(f"    barrier.wait b{_WEIGHTS[slot]}",
                 *(f"    ld.v4 r{first + 4 * block}, ur{LOCAL}:r{self.weight_place}:{self.slots[slot] + BANK_BYTES * block}"
                   for block in range(loads)))
            if index:       # the chunk before has been loaded
                text(f"    wait_thread {loads}")
            self._copy_streamed((slot - 1) % self.stream_slots, index + self.stream_slots > chunks)
        text("    wait.thread")
        for word in range(0, self.part_words, self.slices):
            entry = word // self.slices * self.mm_entries
            if self.entries.window:
                text(*self.entries.lines(entry, self.entries.refill(entry), f"ur{_REFILL}:rf{self.zeros[parity]}", 0),
                     f"    umov {{entry}}, {self.table + (self.entries.place(entry) << OFFSET_BITS)}")
            self._multiply_first(parity, self._factors(place * self.part_words + word, False), not word)
            if not self.entries.window:
                text(f"    uadd {{entry}}, {{entry}}, {self.mm_entries << OFFSET_BITS}")

    def _multiply_first(self, parity: bool, first: int, perhaps: bool) -> None:
        """An ``mm`` of a part; ``perhaps``: the sums begin with it where the part is the first one."""
        if not perhaps:
            self._multiply_words(parity, 0, self.slices, first, False)
            return
        begins, begun = self.text.label("begins"), self.text.label("begun")
        self.text(f"    @up4 bra {begins}")
        self._multiply_words(parity, 0, self.slices, first, False)
        self.text(f"    bra {begun}", f"{begins}:")
        self._multiply_words(parity, 0, self.slices, first, True)
        self.text("    usetp.ne up4, {x}, {x}", f"{begun}:")

    def _copy_streamed(self, slot: int, perhaps: bool = False) -> None:
        """Copy of the next chunk of the filters to a slot; ``perhaps``: where a part follows."""
        guard, nbytes = "@up2 " if perhaps else "", self.chunk_words * self.cfg.dot
        self.text(f"    {guard}barrier.expect b{_WEIGHTS[slot]}, {nbytes * self.cfg.threads}",
                  f"    {guard}copy_rows.shared.global {{slot_{slot}}}, {{chunk}}, {{w_blocks}}, b{_WEIGHTS[slot]}",
                  f"    {guard}uadd {{chunk}}, {{chunk}}, {nbytes}")
