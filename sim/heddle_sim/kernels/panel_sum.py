"""Sum of two quantised tensors on the sparse engine: each result is a depthwise row whose elements are rows of a and of b.

A row of the panel has ``4 * threads`` bytes of a tensor, whatever its axes. Some elements of a row of the result are the row of a, the
others that of b, with weights of 8 bits. The sum scaler multiplies their sum with one factor, rounds and packs. So the two factors of the
sum are those weights times that factor. Which weights give the same bytes for all pairs is found before the run.

Chunks of both tensors come to three slots of shared memory and go to the panel; results leave from three others. Each core has a part.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES
from heddle.errors import UsageError
from heddle.isa.sparse_job import INDEX_BYTES, JOB_BYTES, POINTER_BYTES, SCALE_ROWS, PanelTarget, SparseKind

from ..isa.features import lacking
from ..sparse.job import job_record, most_weights, panel_record, scale_table, weight_rows
from .elementwise import SumProblem
from .kernel import Kernel
from .parts.fitting import Region, Unfit, check_regions, check_tensors
from .parts.launch import Launch
from .parts.sum_weights import MOST_WEIGHT, SumWeights, sum_weights
from .parts.text import KernelText
from .parts.tiling import round_up
from .problem import Operands

__all__ = ["PanelSumKernel"]

_SLOTS = 3                          # of chunks, of results
_CHUNK_ROWS = range(8, 25, 4)       # of each tensor; results begin at whole rows of shared memory
_CONSTANTS, _LOADED = 0, 1          # barriers: first of the slots
_SCALED_SUMS = 2                    # cycles for the sums of eight PEs that become bytes
_UPPER = 32                         # bits of a product that are left out before the shift
_RESTS, _TURNS = 2, 3               # places of other weights than the greatest; how often elements go through the places, at most
_NEAR = 1 / 8192                    # of a result: about what multipliers of 21 bits can say
# Of the cycle model: cycles around the chunks; of a chunk, for its jobs, and between its copies for each byte that the bus has.
_START, _JOBS, _COPIES = 210, 5, 1.6


class PanelSumKernel(Kernel):
    """Sum of a ``SumProblem`` on the sparse engine, the same bytes as those of ``SumKernel``.

    Operands: ``a``, ``b``, the result ``c``, each filled up to a multiple of 16 bytes, and ``table``, what ``arranged`` returns.

    Attributes
    ----------
    weights : SumWeights
        Of the elements of a row.
    rows : int
        Of the panel, of each tensor, in a chunk.

    Raises ``UsageError`` for what the engine cannot do, ``Unfit`` where shared memory has no room.
    """

    def __init__(self, cfg: Config, problem: SumProblem) -> None:
        super().__init__(cfg, problem)
        check_tensors(cfg, problem.name)
        if not cfg.sparse:
            raise UsageError(f"configuration {cfg.name} must have sparse ({lacking(cfg, 'sparse')}) for sums on the sparse engine")
        if len(set(problem.dtypes)) > 1:
            raise UsageError(f"a and b must have one type for sums on the sparse engine, not {problem.dtypes[0]} and {problem.dtypes[1]}")
        self.places = most_weights(cfg)
        found = self._weights(problem)
        if found is None:
            raise UsageError(f"multipliers must be near two sums of weights for the sparse engine, not {problem.multipliers}")
        self.weights, self.width = found, cfg.sparse_columns
        self.blocks = -(-problem.nbytes // BANK_BYTES)
        self.fetched, self.multiplied = self._elements()
        fitting = [rows for rows in _CHUNK_ROWS if 2 * rows <= cfg.sparse_rows and self._sizes(rows)[-1] <= cfg.shared_bytes]
        if not fitting:
            raise Unfit("shared_memory_kib")
        self.rows = min(fitting, key=self._cycles)
        self.chunk = self.rows * self.width
        self._place()

    def _weights(self, problem: SumProblem) -> SumWeights | None:
        """Exact ones if there are any."""
        near = int(_NEAR * 2 ** int(problem.output.shift))
        for tolerance in (0,) if problem.exact else (0, near):
            if found := sum_weights(problem.multipliers, problem.zero_points, problem.output, problem.dtypes[0],
                                    _TURNS * (self.places - _RESTS), tolerance):
                return found
        return None

    def _elements(self) -> tuple[list[int], list[int]]:
        """Of each element of a row which tensor it is (0: a), and the weight at each place of the PEs.

        Elements behind the places begin with the weights at the first ones. So all weights are ``MOST_WEIGHT`` but the last ones. These
        are what is left of the weights of a and of b, and count twice where elements go through the places three times.
        """
        weights = self.weights[:2]
        first = self.places - sum(weight % MOST_WEIGHT > 0 for weight in weights)
        turns = 1 if sum(weight // MOST_WEIGHT for weight in weights) <= 2 * first else 2
        rests = [_part(weight % MOST_WEIGHT, turns) for weight in weights]
        great = [tensor for tensor, (weight, rest) in enumerate(zip(weights, rests)) for _ in range((weight - turns * rest) // MOST_WEIGHT)]
        left = [tensor for tensor, rest in enumerate(rests) if rest]
        fetched = [tensor for turn in range(turns) for tensor in (*great[turn * first:(turn + 1) * first], *left)] + great[turns * first:]
        return fetched, [MOST_WEIGHT] * min(first, len(great)) + [rest for rest in rests if rest]

    # -- sizes and cycles -------------------------------------------------------------------

    def _jobs(self) -> int:
        """Records: scales, weights, and for each slot that of its chunk and that of its results."""
        return 1 + -(-len(self.multiplied) // self.cfg.sparse_pairs) + 2 * _SLOTS

    def _sizes(self, rows: int) -> list[int]:
        """Places in shared memory with so many rows in a chunk: records, scales, weights, pointers, indices, chunks, results, end."""
        pointers, indices = (rows + 1) * POINTER_BYTES, rows * len(self.fetched) * INDEX_BYTES
        sizes = [self._jobs() * JOB_BYTES, SCALE_ROWS * self.width, len(self.multiplied) * self.width, pointers, indices,
                 *(2 * rows * self.width,) * _SLOTS, *(rows * self.width,) * _SLOTS]
        return np.cumsum([0, *(round_up(size, ROW_BYTES) for size in sizes)]).tolist()

    def _place(self) -> None:
        places = self._sizes(self.rows)
        self.scales_at, self.weights_at, self.pointers_at, self.indices_at, *slots = places[1:]
        self.chunks_at, self.results_at = slots[:_SLOTS], slots[_SLOTS:-1]
        check_regions(self.cfg, [Region(f"place {number}", start, stop - start) for number, (start, stop) in enumerate(pairwise(places))])

    @classmethod
    def fits(cls, cfg: Config, problem: SumProblem) -> bool:
        """See ``Kernel``."""
        return problem.method == "panel"

    @classmethod
    def estimate(cls, cfg: Config, problem: SumProblem) -> int:
        """Cycles, roughly."""
        kernel = cls(cfg, problem)
        return int(kernel._cycles(kernel.rows))

    def _cycles(self, rows: int) -> float:
        """Expected cycles with so many rows in a chunk."""
        nbytes, bus = rows * self.width, self.cfg.axi_bytes
        chunks = -(-self.blocks * BANK_BYTES // (nbytes * self.cfg.cores))
        copies, steps = 2 * nbytes * self.cfg.cores / bus, rows * self._row_cycles()
        return _START + self._sizes(rows)[5] / bus + copies + steps + chunks * max(copies + _COPIES * bus, steps + _JOBS)

    def _row_cycles(self) -> int:
        """Cycles of the engine for a row of the result: loads of its two rows and its steps, or the sums that leave."""
        steps, groups = -(-len(self.fetched) // self.cfg.sparse_pairs), self.cfg.thread_groups
        return max(2 * groups + steps, _SCALED_SUMS * groups)

    def bound(self) -> float:
        """Cycles that no run of this program can beat: those of the engine, or, if more, those of the bytes of a and b on the ports of the
        cores."""
        nbytes = self.problem.nbytes / self.cfg.cores
        return max(self._row_cycles() * nbytes / self.width, 2 * nbytes / self.cfg.axi_bytes)

    # -- operands and program ---------------------------------------------------------------

    def arranged(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """See ``Kernel``: behind ``arrays`` the table, as it is to lie at the beginning of shared memory."""
        weights, spec, rows = self.weights, self.problem.output, self.rows
        minimum, maximum = spec.bounds
        scales = scale_table(
            self.cfg, np.full(self.width, weights.bias), np.full(self.width, weights.multiplier), shift=weights.shift - _UPPER,
            unsigned=int(spec.dtype == np.uint8), zero_point=int(spec.zero_point), minimum=minimum, maximum=maximum)
        multiplied = np.repeat(np.array(self.multiplied, np.int8)[:, None], self.width, axis=1)
        pointers = np.arange(rows + 1, dtype="<i4") * len(self.fetched)
        indices = (np.array(self.fetched) * rows + np.arange(rows)[:, None]).astype("<u2")
        table = np.zeros(self.chunks_at[0], np.uint8)
        for place, part in ((0, np.concatenate(self._records())), (self.scales_at, scales), (self.weights_at, multiplied),
                            (self.pointers_at, pointers), (self.indices_at, indices)):
            data = np.ascontiguousarray(part).view(np.uint8).ravel()
            table[place:place + len(data)] = data
        return [*arrays, table]

    def _records(self) -> list[np.ndarray]:
        """See ``_jobs``."""
        cfg, count, pairs = self.cfg, len(self.multiplied), self.cfg.sparse_pairs
        places = weight_rows(cfg, count)
        records = [panel_record(0, SCALE_ROWS, self.scales_at, PanelTarget.SCALES)]
        records += [panel_record(int(places[first]), min(pairs, count - first), self.weights_at + first * self.width, PanelTarget.WEIGHTS)
                    for first in range(0, count, pairs)]
        for chunk, results in zip(self.chunks_at, self.results_at):
            records.append(panel_record(0, 2 * self.rows, chunk))
            records.append(job_record(
                kind=SparseKind.ROWS.value, rows=self.rows, panel_rows=2 * self.rows, pointers=self.pointers_at, indices=self.indices_at,
                output=results, depthwise=1, scaled=1, unsigned_panel=self.problem.dtypes[0] == np.uint8))
        return records

    def launches(self, operands: Operands | None = None) -> list[Launch]:
        """One ``Launch``."""
        operands = operands or Operands()
        return [Launch(self.programs[0], self._text.values({
            "a": operands.a, "b": operands.b, "c": operands.c, "table": operands.table, "left": self.blocks}))]

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        text = self._text = KernelText(["a", "b", "c", "table", "left", "to", "from", "job", "blocks", "bytes", "in_left", "core"])
        chunk_blocks = self.chunk // BANK_BYTES
        if self.cfg.cores > 1:
            share = -(-self.blocks // (chunk_blocks * self.cfg.cores)) * chunk_blocks
            text("    umov {core}, %core", "share:", "    usetp.le up0, {core}, 0", "    @up0 bra begin",
                 *(f"    uadd {{{name}}}, {{{name}}}, {share * BANK_BYTES}" for name in "abc"), f"    usub {{left}}, {{left}}, {share}",
                 "    usub {core}, {core}, 1", "    bra share", "begin:", f"    umin {{left}}, {{left}}, {share}",
                 "    usetp.le up0, {left}, 0", "    @up0 bra end")
        constants = self.chunks_at[0]
        text(f"    barrier.expect b{_CONSTANTS}, {constants}", "    umov {to}, 0",
             f"    copy_block.shared.global {{to}}, {{table}}, {constants // BANK_BYTES}, b{_CONSTANTS}", "    umov {in_left}, {left}",
             "    usetp.eq up1, {left}, {left}")
        self._load(0)
        self._load(1)
        text(f"    barrier.wait b{_CONSTANTS}")
        first = self._jobs() - 2 * _SLOTS
        for number in range(first):
            self._start(number)
        for slot in range(_SLOTS):
            self._chunk(slot, first + 2 * slot)
        text("    bra chunk_0")
        for slot in range(_SLOTS):
            text(f"last_{slot}:", "    wait_sparse 0", f"    umov {{from}}, {self.results_at[slot]}",
                 "    copy_block.global.shared {c}, {from}, {left}", "    commit_group", "    halt")
        text("end:", "    halt")
        return [text]

    def _start(self, record: int) -> None:
        """Start a job."""
        self._text(f"    umov {{job}}, {record * JOB_BYTES}", "    sparse {job}")

    def _load(self, slot: int) -> None:
        """Copy the next chunk of both tensors to a slot, if there is one."""
        barrier, loaded, text = _LOADED + slot, self._text.label("loaded"), self._text
        text("    usetp.le up0, {in_left}, 0", f"    @up0 bra {loaded}", f"    umin {{blocks}}, {{in_left}}, {self.chunk // BANK_BYTES}",
             "    usub {in_left}, {in_left}, {blocks}", "    ushl {bytes}, {blocks}, 5", f"    barrier.expect b{barrier}, {{bytes}}")
        for name, place in (("a", self.chunks_at[slot]), ("b", self.chunks_at[slot] + self.chunk)):
            text(f"    umov {{to}}, {place}", f"    copy_block.shared.global {{to}}, {{{name}}}, {{blocks}}, b{barrier}",
                 f"    uadd {{{name}}}, {{{name}}}, {self.chunk}")
        text(f"{loaded}:")

    def _chunk(self, slot: int, record: int) -> None:
        """The jobs of the chunk in a slot. While they run, the results of the chunk before leave, and a later chunk is loaded.

        Uniform predicates: up1 the chunk is the first one, up2 others follow; up0 scratch.
        """
        text, before = self._text, (slot - 1) % _SLOTS
        text(f"chunk_{slot}:", f"    usetp.gt up2, {{left}}, {self.chunk // BANK_BYTES}", f"    barrier.wait b{_LOADED + slot}")
        self._start(record)
        text("    wait_group.read 1")
        self._start(record + 1)
        text(f"    @up1 bra stored_{slot}", "    wait_sparse 2", f"    umov {{from}}, {self.results_at[before]}",
             f"    copy_block.global.shared {{c}}, {{from}}, {self.chunk // BANK_BYTES}", "    commit_group",
             f"    uadd {{c}}, {{c}}, {self.chunk}", f"stored_{slot}:", "    usetp.ne up1, {left}, {left}")
        self._load((slot + 2) % _SLOTS)
        text(f"    @!up2 bra last_{slot}", f"    usub {{left}}, {{left}}, {self.chunk // BANK_BYTES}")


def _part(rest: int, turns: int) -> int:
    """Weight that is ``rest`` modulo ``MOST_WEIGHT`` when it is taken so often, once or twice."""
    return rest if turns == 1 else (rest - MOST_WEIGHT * (rest % 2)) // 2
