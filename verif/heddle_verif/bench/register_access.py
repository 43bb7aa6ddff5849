"""Accesses of the thread unit to the lanes' registers, for a ``MatrixBench``.

``drive`` puts the request on the port; ``sample`` looks at the grants at the end of the cycle and updates the bench's model. It returns
whether something was granted and whether the access is over.
"""

import numpy as np
from heddle.constants import FIRST_FACTOR_REGISTER

__all__ = ["FactorWrite", "ProductWrite", "Read", "Return"]


class Read:
    """Read register ``number`` of the threads of ``group``, with ``pair`` also the next one; with ``cfg.rnn`` of a tap."""

    kind = "read"

    def __init__(self, number, group, numbers_per_word, tap=0, pair=False):
        self.number, self.group, self.tap, self.pair = number, group, tap, pair
        factor = number - FIRST_FACTOR_REGISTER
        if factor >= 0:
            self.places = {("factor", factor // numbers_per_word)}
        else:
            self.places = {("tap" if tap else "product", register) for register in range(number, number + 1 + pair)}

    def drive(self, bench):
        bench.registers(read=1, read_number=self.number, read_group=self.group, **({"read_tap": self.tap} if bench.cfg.rnn else {}),
                        **({"read_pair": self.pair} if bench.cfg.register_pairs else {}))

    def sample(self, bench):
        granted = bool(bench.sample("read_grant"))
        if granted:
            factor = self.number - FIRST_FACTOR_REGISTER
            sums = bench.sums(self.tap)
            columns = bench.factor_numbers()[:, [factor]] if factor >= 0 else sums[:, [
                number % sums.shape[1] for number in range(self.number, self.number + 1 + self.pair)]]
            bench.expect_read(columns[self.group * bench.slots:(self.group + 1) * bench.slots].T.copy())
        return granted, granted


class ProductWrite:
    """Write what the lanes keep to a product register."""

    kind = "write"

    def __init__(self, register, lanes):
        self.register, self.lanes, self.places = register, lanes, {("product", register)}

    def drive(self, bench):
        bench.registers(write_product=1, write_register=self.register, write_lanes=bench.bits(self.lanes))

    def sample(self, bench):
        granted = bool(bench.sample("write_grant"))
        if granted:
            bench.products.view(np.uint32)[self.lanes, self.register] = bench.returned[self.lanes]
        return granted, granted


class FactorWrite:
    """Write ``data`` (uint32 [slots, dot / 4]) to the parts of a mask of a factor word in some lanes."""

    kind = "write"

    def __init__(self, word, parts, lanes, data):
        self.word, self.parts, self.lanes, self.data, self.places = word, parts, lanes, data, {("factor", word)}

    def drive(self, bench):
        bench.registers(write_factor=1, write_word=self.word, write_parts=self.parts, write_lanes=bench.bits(self.lanes))
        bench.return_data(self.data)

    def sample(self, bench):
        numbers = bench.cfg.numbers_per_word
        for lane in np.flatnonzero(self.lanes):
            for part in range(numbers):
                if self.parts >> part & 1:
                    bench.factor_numbers()[lane, self.word * numbers + part] = self.data[lane % len(self.data), part]
        return True, True


class Return:
    """Give the first word of ``data`` (uint32 [slots, dot / 4]) to some lanes, which keep it."""

    kind = "write"
    places = {("returned", 0)}

    def __init__(self, data, lanes):
        self.data, self.lanes = data, lanes

    def drive(self, bench):
        bench.registers(return_lanes=bench.bits(self.lanes))
        bench.return_data(self.data)

    def sample(self, bench):
        for lane in np.flatnonzero(self.lanes):
            bench.returned[lane] = self.data[lane % len(self.data), 0]
        return True, True
