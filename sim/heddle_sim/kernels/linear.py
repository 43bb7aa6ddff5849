"""A matrix product with a bias, and with results of 8 bits: y = requantise(x W + bias) [S0.17].

The kernel of ``matmul`` with two changes. Biases (and multipliers, where each column has its own) lie in a table at the end of shared
memory; the product registers of a tile begin with the biases instead of zero, which all threads load from there, and ``mm`` adds to
them. When a tile is complete its registers are requantised where they stand (``requantise``), four columns to a register of bytes,
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
_TABLE_SEGMENT, _RESULT_SEGMENT = 4, 5


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
    """The program for one shape. Thread predicate p2: rows of the tile that is stored."""

    def __init__(self, cfg, m, n, k, a_signed, b_signed, table, has_bias, requantise):
        self.result_bytes = 4 if requantise is None else 1
        self.table_bytes = 0 if table is None else table.nbytes
        super().__init__(cfg, m, n, k, a_signed, b_signed, reserved=self.table_bytes)
        self.steps = None if requantise is None else RequantiseSteps.of(requantise)
        self.has_bias, self.own_multipliers = has_bias, requantise is not None and requantise.per_column
        self.row_bytes = 0 if table is None else table.shape[1] * 4
        self.table = cfg.shared_bytes - self.table_bytes
        self.narrow_tile = self.result_bytes * cfg.threads < BANK_BYTES         # narrower than a block of a copy
        # Four registers for multipliers, then one that is zero, and one with the offset of a row of C.
        self.factors = 2 * cfg.threads + 4
        self.zero, self.offset_rows = self.factors + 4, self.factors + 5

    def arguments(self, a, b, c, share):
        own = {"table_end": self.table + 4 * (share.column + share.columns)}
        return super().arguments(a, b, c, share) | own

    def begin(self):
        """The table comes to shared memory; the first two tiles begin with their biases."""
        text = self.text
        if self.table_bytes:
            text(f"    umov {{table}}, {self.table}", f"    barrier.expect b{_TABLE_COPIED}, {self.table_bytes}",
                 f"    copy_block.shared.global {{table}}, {{table_from}}, {self.table_bytes // BANK_BYTES}, b{_TABLE_COPIED}",
                 f"    mov r{self.zero}, 0", f"    barrier.wait b{_TABLE_COPIED}")
        if self.narrow_tile:
            self.scale_thread_number(self.offset_rows, self.c_pitch)
        if self.has_bias:
            text("    umov {prev_cols}, {n}")
            self.point_at_table(0)
            self.load_bias(0)
            self.point_at_next_bias("{n}")
            self.load_bias(1)

    def point_at_next_bias(self, columns):
        """The segment of the table begins with the biases of the tile behind the one where ``columns`` are left; changes ``prev_cols``."""
        self.text(f"    usub {{prev_cols}}, {columns}, {self.cfg.threads}", "    usetp.le up2, {prev_cols}, 0",
                  "    @up2 umov {prev_cols}, {n}")
        self.point_at_table(0)

    def point_at_table(self, row):
        """The segment of the table begins at the first of the columns of which ``prev_cols`` are left, in a row of the table."""
        self.text("    ushl {bytes}, {prev_cols}, 2", "    usub {table}, {table_end}, {bytes}")
        if row:
            self.text(f"    uadd {{table}}, {{table}}, {row * self.row_bytes}")
        self.text(f"    segment.shared.b8.d1 ur{_TABLE_SEGMENT}, {{table}}")

    def load_bias(self, tile):
        for column in range(0, self.used_columns, 4):
            self.text(f"    ld.v4 r{tile * self.cfg.threads + column}, ur{_TABLE_SEGMENT}:r{self.zero}:{4 * column}")

    def multiply(self, tile, half, first=True, last=False):
        super().multiply(tile, half, first and not self.has_bias, last)

    def copy_c(self, tile):
        if self.steps is None:
            super().copy_c(tile)
        else:
            self.finish_tile(tile)
            (self.store_rows if self.narrow_tile else self.stage_rows)(tile)
        if self.has_bias:           # of the tile behind the one that is being multiplied
            if self.steps is None or self.narrow_tile:
                self.point_at_next_bias("{cols}")
            self.load_bias(tile)

    def finish_tile(self, tile):
        """Requantise a tile in its registers."""
        t, text, first = self.tiling, self.text, tile * self.cfg.threads
        loads = None
        if self.own_multipliers:
            self.point_at_table(int(self.has_bias))

            def loads(quad):
                return f"    ld.v4 r{self.factors}, ur{_TABLE_SEGMENT}:r{self.zero}:{16 * quad}", self.factors

        lines = list(self.steps.instructions(first, self.used_columns, first, loads))
        begins = 1 + self.own_multipliers
        text(*lines[:begins])
        if t.chunks == 1:
            self.copy_b()           # this instruction has waited for the mm of the tile: its slot is free
        text(*lines[begins:])

    def stage_rows(self, tile):
        """Bytes to the staging area, from there to the rows of C."""
        text, threads = self.text, self.cfg.threads
        text(f"    barrier.wait b{C_STAGED[tile]}")
        for block in range(0, self.used_columns, BANK_BYTES):
            text(f"    st.v4 ur{2 + tile}:rf{self.offset_c}:{block}, r{tile * threads + block // 4}")
        self.announce_rows(tile)
        if self.has_bias:           # while the stores are under way
            self.point_at_next_bias("{cols}")
        self.send_rows(tile)

    def store_rows(self, tile):
        """Bytes of each row from the registers to C."""
        self.text(f"    segment.global.b8.d1 ur{_RESULT_SEGMENT}, {{prev_c}}", f"    setp.lt p2, r{self.thread_number}, {{prev_rows}}",
                  f"    @p2 st.v2 ur{_RESULT_SEGMENT}:r{self.offset_rows}:0, r{tile * self.cfg.threads}")


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
