"""Accesses of the thread unit to the lanes' registers, for a ``MatrixBench``.

``drive`` puts the request on the port; ``sample`` looks at the grants at the end of the cycle, updates the bench's
model and returns whether something was granted and whether the access is over.
"""

import numpy as np
from heddle.config import PRODUCT_BANKS
from heddle.layouts import Capture

__all__ = ["FactorRead", "FactorWrite", "ProductRead", "ProductWrite", "Return"]


class ProductRead:
    """Read row ``row`` of ``banks`` into ``capture``; done when every bank was granted."""

    kind = "read"

    def __init__(self, banks, row, capture):
        self.banks, self.row, self.capture = banks, row, capture

    @property
    def place(self):
        return ("product", self.row)

    def drive(self, bench):
        bench.registers(read_banks=self.banks, read_row=self.row, capture=self.capture.value)

    def sample(self, bench):
        granted = bench.sample("read_grant") & self.banks
        values = bench.products.view(np.uint32)[:, 4 * self.row:4 * self.row + 4].copy()
        for bank in range(PRODUCT_BANKS):
            if granted >> bank & 1:
                bench.capture(Capture(Capture.WORD_0.value + bank) if self.capture == Capture.QUAD else self.capture,
                              values[:, bank])
        self.banks &= ~granted
        return granted != 0, self.banks == 0


class FactorRead:
    """Read register ``256 + number`` into ``capture``."""

    kind = "read"

    def __init__(self, number, capture, numbers_per_word):
        self.number, self.capture, self.place = number, capture, ("factor", number // numbers_per_word)

    def drive(self, bench):
        bench.registers(read_factor=1, read_number=self.number, capture=self.capture.value)

    def sample(self, bench):
        granted = bench.sample("read_factor_grant")
        if granted:
            bench.capture(self.capture, bench.factor_numbers()[:, self.number].copy())
        return bool(granted), bool(granted)


class ProductWrite:
    """Write operand word j to row ``row`` of bank j for each bank."""

    kind = "write"

    def __init__(self, banks, row, lanes):
        self.banks, self.row, self.lanes = banks, row, lanes

    @property
    def place(self):
        return ("product", self.row)

    def drive(self, bench):
        bench.registers(write_banks=self.banks, write_row=self.row, write_lanes=bench.bits(self.lanes))

    def sample(self, bench):
        granted = bench.sample("write_grant") & self.banks
        for bank in range(PRODUCT_BANKS):
            if granted >> bank & 1:
                bench.products.view(np.uint32)[self.lanes, 4 * self.row + bank] = bench.operand[self.lanes, bank]
        self.banks &= ~granted
        return granted != 0, self.banks == 0


class FactorWrite:
    """Write a chunk of the operand to a factor word, the 32-bit parts of a mask only."""

    kind = "write"

    def __init__(self, word, chunk, parts, lanes):
        self.word, self.chunk, self.parts, self.lanes = word, chunk, parts, lanes

    @property
    def place(self):
        return ("factor", self.word)

    def drive(self, bench):
        bench.registers(write_factor=1, write_word=self.word, write_chunk=self.chunk, write_parts=self.parts,
                        write_lanes=bench.bits(self.lanes))

    def sample(self, bench):
        if not bench.sample("write_factor_grant"):
            return False, False
        numbers = bench.cfg.numbers_per_word
        for part in range(numbers):
            if self.parts >> part & 1:
                bench.factor_numbers()[self.lanes, self.word * numbers + part] = \
                    bench.operand[self.lanes, self.chunk * numbers + part]
        return True, True


class Return:
    """Give ``data`` (uint32 [slots, 4]) to the ``words`` of the operands of some lanes."""

    kind = "write"

    def __init__(self, data, words, lanes):
        self.data, self.words, self.lanes = data, words, lanes

    @property
    def place(self):
        return ("operand", 0)

    def drive(self, bench):
        bench.registers(return_words=self.words, return_lanes=bench.bits(self.lanes))
        bench.return_data(self.data)

    def sample(self, bench):
        slots = len(self.data)
        for lane in np.flatnonzero(self.lanes):
            for word in range(4):
                if self.words >> word & 1:
                    bench.operand[lane, word] = self.data[lane % slots, word]
        return True, True
