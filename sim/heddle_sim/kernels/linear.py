"""A matrix product with a bias, and with results of 8 bits: y = requantise(x W + bias) [S0.17].

The kernel of ``matmul`` with two changes. Biases (and multipliers, where each column has its own) lie in a table at the end of shared
memory; the product registers of a tile begin with the biases instead of zero, which all threads load from there, and ``mm`` adds to
them. When a tile is complete it is requantised (``requantise``), four columns to a register of bytes,
and these are stored: through the staging area in rows of 16 bytes, or, where a tile is narrower than that, from the registers.
"""

import numpy as np
from heddle.config import BANK_BYTES

from .launch import Launch
from .matmul import _UNIFORM, MatmulKernel
from .requantise import RequantiseSteps
from .transfers import C_STAGED

__all__ = ["plan_linear", "table_for"]

_TABLE_COPIED = 4       # barrier
_BIASES, _RESULT_SEGMENT, _MULTIPLIERS = 4, 5, 6        # segments
_GRANULE = 16           # product registers that share a token
_NO_COLUMN = 1 << 16
_QUEUED = 3             # lines for the thread unit to work on while other instructions are issued


def table_for(cfg, n, bias, requantise):
    """The constants of the columns as the kernel wants them in global memory: int32 (rows, columns padded with zeros), or ``None``.

    ``bias`` int32 (n,) or ``None``; ``requantise`` a ``Requantise`` or ``None``. ``ValueError`` when they do not fit shared memory.
    """
    rows = [] if bias is None else [bias]
    if requantise is not None and requantise.per_column:
        rows.append(RequantiseSteps.of(requantise).multipliers)
    if not rows:
        return None
    table = np.zeros((len(rows), -(-n // cfg.threads) * cfg.threads), np.int32)
    table[:, :n] = rows
    if 4 * table.nbytes > cfg.shared_bytes:
        limit = cfg.shared_bytes // 16 // len(rows) // cfg.threads * cfg.threads
        raise ValueError(f"columns of w must be at most {limit} on {cfg.name} with {'bias' if len(rows) == 1 else 'bias and multipliers'} "
                         f"of their own, not {n}")
    return table


class LinearKernel(MatmulKernel):
    """The program for one shape. Thread predicates p2: rows of the tile that is stored; p4, p5: columns of its halves.

    While ``mm`` works on a tile, the thread unit finishes the one before, four columns at a time: requantised, they go to other registers,
    and theirs begin with the biases of the next tile. Each half of a tile has an ``mm`` and tokens of its own, so
    that the thread unit begins when half of the tile is complete. What it has staged is sent behind the next ``mm``: then it is there.
    """

    def __init__(self, cfg, m, n, k, a_signed, b_signed, table, has_bias, requantise):
        self.result_bytes = 4 if requantise is None else 1
        self.table_bytes = 0 if table is None else table.nbytes
        # A sum that the next step replaces is not written: the thread unit writes biases meanwhile.
        super().__init__(cfg, m, n, k, a_signed, b_signed, reserved=self.table_bytes, order="column-outer")
        self.steps = None if requantise is None else RequantiseSteps.of(requantise)
        self.has_bias, self.own_multipliers = has_bias, requantise is not None and requantise.per_column
        self.row_bytes = 0 if table is None else table.shape[1] * 4
        self.table = cfg.shared_bytes - self.table_bytes
        self.narrow_tile = self.result_bytes * cfg.threads < BANK_BYTES         # narrower than a block of a copy
        # Four registers for multipliers, then one that is zero, one with the offset of a row of C, the columns of halves, and bytes.
        self.factors = 2 * cfg.threads + 4
        self.zero, self.offset_rows = self.factors + 4, self.factors + 5
        self.bytes = 2 * cfg.threads + _GRANULE
        half = cfg.threads // 2
        if half % _GRANULE == 0 and self.used_columns > half:
            self.column_parts = [(4, self.factors + 6), (5, self.factors + 7)]

    def arguments(self, a, b, c, share):
        own = {"table_end": self.table + 4 * (share.column + share.columns), "staged": 0}
        return super().arguments(a, b, c, share) | own

    def copy_first(self):
        if self.table_bytes:
            self.text(f"    umov {{table}}, {self.table}", f"    barrier.expect b{_TABLE_COPIED}, {self.table_bytes}",
                      f"    copy_block.shared.global {{table}}, {{table_from}}, {self.table_bytes // BANK_BYTES}, b{_TABLE_COPIED}")

    def lanes(self):
        super().lanes()
        if len(self.column_parts) > 1:
            (predicate, low), (_, high) = self.column_parts
            self.text(f"    setp.lt p{predicate}, r{self.column}, {self.cfg.threads // 2}",
                      f"    mov r{low}, {_NO_COLUMN}", f"    mov r{high}, {_NO_COLUMN}",
                      f"    @p{predicate} mov r{low}, r{self.column}", f"    @!p{predicate} mov r{high}, r{self.column}")

    def begin(self):
        """The table is there; the first two tiles begin with their biases."""
        text = self.text
        if self.table_bytes:
            text(f"    mov r{self.zero}, 0", f"    barrier.wait b{_TABLE_COPIED}")
        if self.narrow_tile:
            self.scale_thread_number(self.offset_rows, self.c_pitch)
        if self.has_bias:
            self.point_at_table(_BIASES, 0, "{n}")
            self.load_biases(0)
            self.point_at_next_biases("{n}")
            self.load_biases(1)

    def point_at_next_biases(self, columns):
        """The segment of the biases begins with those of the tile behind the one where ``columns`` are left."""
        self.text(f"    usub {{bytes}}, {columns}, {self.cfg.threads}", "    usetp.le up2, {bytes}, 0", "    @up2 umov {bytes}, {n}")
        self.point_at_table(_BIASES, 0, "{bytes}")

    def point_at_table(self, segment, row, columns):
        """A segment begins at the first of the columns of which ``columns`` are left, in a row of the table."""
        self.text(f"    ushl {{bytes}}, {columns}, 2", "    usub {table}, {table_end}, {bytes}")
        if row:
            self.text(f"    uadd {{table}}, {{table}}, {row * self.row_bytes}")
        self.text(f"    segment.shared.b8.d1 ur{segment}, {{table}}")

    def load_biases(self, tile):
        self.text(*(self.load_quad(tile, quad) for quad in range(self.used_columns // 4)))

    def load_quad(self, tile, quad):
        """Four registers of a tile become the biases of their columns."""
        return f"    ld.v4 r{tile * self.cfg.threads + 4 * quad}, ur{_BIASES}:r{self.zero}:{16 * quad}"

    def multiply(self, tile, half, first=True, last=False):
        super().multiply(tile, half, first and not self.has_bias, last)

    def copy_c(self, tile):
        """Send the tile that is staged, finish and stage this one, and let its registers begin with the next one's biases."""
        text, lines = self.text, list(self.finish_tile(tile))
        if not self.narrow_tile:
            self.send_staged(1 - tile)
            text(f"    barrier.wait b{C_STAGED[tile]}", "    umov {staged}, 1")
            self.announce_rows(tile)
        if self.own_multipliers:
            self.point_at_table(_MULTIPLIERS, int(self.has_bias), "{prev_cols}")
        if self.has_bias:
            self.point_at_next_biases("{cols}")
        # The first lines of the last part wait for the mm of the tile; then its slot of B is free.
        begins = next(index for index, (_, column) in enumerate(lines) if column >= self.part_begins()) + _QUEUED
        text(*(line for line, _ in lines[:begins]))
        if self.tiling.chunks == 1:
            self.copy_b()
        text(*(line for line, _ in lines[begins:]))
        if self.narrow_tile:
            text(f"    segment.global.b8.d1 ur{_RESULT_SEGMENT}, {{prev_c}}", f"    setp.lt p2, r{self.thread_number}, {{prev_rows}}",
                 f"    @p2 st.v2 ur{_RESULT_SEGMENT}:r{self.offset_rows}:0, r{self.bytes}")

    def part_begins(self):
        """Column of a tile that its last ``mm`` begins with."""
        return self.cfg.threads // 2 if len(self.column_parts) > 1 else 0

    def finish_tile(self, tile):
        """Lines, each with the column of the tile that it waits for."""
        stores = []
        for quad in range(self.used_columns // 4):
            column, register = 4 * quad, tile * self.cfg.threads + 4 * quad
            place = f"ur{2 + tile}:rf{self.offset_c}"
            if self.steps is None:
                yield f"    st.v4 {place}:{16 * quad}, r{register}", column
            else:
                loads = (lambda _: (f"    ld.v4 r{self.factors}, ur{_MULTIPLIERS}:r{self.zero}:{16 * quad}", self.factors)
                         ) if self.own_multipliers else None
                for line in self.steps.instructions(register, 4, self.bytes + quad, loads):
                    yield line, column
            if self.has_bias:
                yield self.load_quad(tile, quad), column
            # Bytes are stored behind the next quad: they are in their registers then.
            yield from stores
            stores = []
            if self.steps is not None and not self.narrow_tile and (column % BANK_BYTES == 12 or column + 4 == self.used_columns):
                block = column // BANK_BYTES
                stores = [(f"    st.v4 {place}:{BANK_BYTES * block}, r{self.bytes + 4 * block}", column)]
        yield from stores

    def send_staged(self, tile):
        """Send a tile to the rows of C, if one is staged."""
        none = self.text.label("sent")
        self.text("    usetp.eq up2, {staged}, 0", f"    @up2 bra {none}")
        self.send_rows(tile)
        self.text(f"{none}:")

    def end(self):
        if not self.narrow_tile:
            self.text.select(("up0",), lambda tile: self.send_staged(not tile))


def plan_linear(cfg, m, n, k, addresses, signed, bias, requantise, table):
    """Program and arguments for C (m x n) = A (m x k) x B (k x n) + bias, requantised.

    Parameters
    ----------
    addresses : sequence of int
        Of A, B, C and the table, laid out as for ``matmul.plan``; C has elements of 8 bits with ``requantise``, else of 32.
    signed : sequence of bool
        Signedness of A and B.
    bias, requantise, table
        As for, and from, ``table_for``.

    Returns ``Launch``.
    """
    kernel = LinearKernel(cfg, m, n, k, *signed, table, bias is not None, requantise)
    a, b, c, table_from = addresses
    uniform = kernel.uniform(a, b, c) | {_UNIFORM.index("table_from"): table_from}
    return Launch(kernel.program(), uniform, m * n * k)
