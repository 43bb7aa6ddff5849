"""Lists of compiled offsets and gathers in executable random programs."""

import numpy as np
from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, ROW_BYTES
from heddle.isa.compiled_offsets import GATHERED_BYTES, OFFSET_BITS
from heddle_sim.golden.matrix import compiled_address

from ..checkers.races import Access
from .front_end_programs import GATHERS

__all__ = ["OffsetTexts"]

SEGMENT = 15            # defined by each instruction that uses it
TRIALS = 12
WORD = 0xFFFFFFFF


class OffsetTexts:
    """Instructions of ``ExecutableGenerator`` by compiled offsets. ``entries`` is what is known of the compiled-offset memory."""

    entries = np.zeros(0, np.int64)

    def fill_entries(self):
        """Entries that threads store to shared memory; where no block or loop is open, so that they are known behind it."""
        cfg = self.cfg
        count = min(cfg.threads, 16 * cfg.dot // 4, cfg.compiled_offsets)
        source = self.random.choice([number for number in self.offsets if number < FIRST_FACTOR_REGISTER])
        anchor = self.random.choice([number for number in self.offsets if number >= FIRST_FACTOR_REGISTER])
        base = self.random.randrange(0, cfg.shared_bytes - 4 * cfg.threads, BANK_BYTES)
        place = self.register(product=True, writes=True)
        self.settle(Access("thread", "shared", base, base + 4 * cfg.threads, True))
        self.text(f"mov r{place}, %tid", f"shl r{place}, r{place}, 2", f"segment.shared.b8.d1 ur{SEGMENT}, {base}",
                  f"st.b32 ur{SEGMENT}:r{place}:0, r{source}")
        self.settle(Access("matrix", "shared", base, base + 4 * count, False))
        self.text(f"offsets.k{4 * count // cfg.dot} 0, ur{SEGMENT}:rf{anchor}:{-int(self.offsets[anchor][0])}")
        self.entries = self.offsets[source][:count] & WORD

    def gather(self):
        """Elements whose addresses are known and lie in shared memory."""
        if self.depth == 0 and (not len(self.entries) or self.random.random() < 0.3):
            self.fill_entries()
        if not len(self.entries):
            return
        for _ in range(TRIALS):
            name, size = self.random.choice(list(GATHERS.items()))
            count = min(self.random.randrange(1, GATHERED_BYTES // size + 1), len(self.entries))
            first, register = self.random.randrange(len(self.entries) - count + 1), self.random.choice(list(self.offsets))
            base, padding = self.random.randrange(0, self.cfg.shared_bytes, size), self.random.randrange(0, self.cfg.shared_bytes, size)
            addresses = compiled_address(self.entries[first:first + count], self.offsets[register][:, None] & WORD, base, padding)
            if (addresses % size == 0).all() and addresses.max() < self.cfg.shared_bytes:
                break
        else:
            return
        swizzle, low, high = self.swizzle(), int(addresses.min()), int(addresses.max()) + size
        if swizzle:
            low, high = low // ROW_BYTES * ROW_BYTES, -(-high // ROW_BYTES) * ROW_BYTES
        self.settle(Access("thread", "shared", low, high, False))
        shift, part = self.random.randrange(5), self.random.randrange(first + 1)
        move = self.random.choice((0, 1, 5))
        self.define_segment(SEGMENT, "shared", base - (move << shift) & WORD, shift, swizzle)
        self.text(f"umov ur{SEGMENT}, {first - part << OFFSET_BITS | padding:#x}",
                  f"{self.guard('p')}gather.{name}.k{count} r{self.register(4, writes=True)}, ur{SEGMENT}:rf{register}:{move}, {part}")
