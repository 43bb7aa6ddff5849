"""Sum of two quantised tensors, element by element, as a program of the thread unit.

Chunks of both tensors come to shared memory, those of the sum go back from there, while threads work on the chunk between them. A thread
has a word of four bytes of two passes, whose instructions alternate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np
from heddle.config import Config
from heddle.constants import BANK_BYTES
from heddle.errors import UsageError

from ..golden.requantise import Requantise
from .kernel import Kernel
from .parts.fitting import Region, Unfit, check_regions, check_tensors
from .parts.launch import Launch
from .parts.text import KernelText
from .parts.thread_cycles import thread_cycles
from .problem import Operands, Problem

__all__ = ["MAX_SUM_SHIFT", "SumKernel", "SumProblem"]

MAX_SUM_SHIFT = 23                          # a bound of the result, shifted left, then has 31 bits and a sign
_LOADED = (0, 1)                            # barriers
_SHARED = 1                                 # segment: all of shared memory
_TID, _PLACE, _STAGE = 0, 1, 2              # registers of a thread
_PASSES = 2                                 # of a round of the loop
_START, _CHUNK = 200, 70                    # cycles of the cost model, as measured on ``base``


@dataclass(frozen=True, eq=False)
class SumProblem(Problem):
    """Sum of two tensors of ``nbytes`` bytes, as ``golden.pooling.add``; ``dtypes`` of a and b are int8 or uint8.

    ``method``: "threads" or "panel" (the sparse engine); "" leaves it to the planner. Both have the same result, unless ``exact`` is
    False: then the sparse engine may round sums near a half either way.

    Raises ``ValueError`` where a sum does not fit 32 bits.
    """

    nbytes: int
    dtypes: tuple[np.dtype, np.dtype]
    multipliers: tuple[int, int]
    zero_points: tuple[int, int]
    output: Requantise
    exact: bool = True
    method: str = ""

    def __post_init__(self) -> None:
        shift, added = int(self.output.shift), int(self.output.zero_point) << int(self.output.shift)
        if shift > MAX_SUM_SHIFT:
            raise UsageError(f"shift must be from 0 to {MAX_SUM_SHIFT} for add, not {shift}")
        limits = [np.iinfo(dtype) for dtype in self.dtypes]
        least, greatest = (added + sum(factor * (bound - zero) for factor, bound, zero in zip(self.multipliers, bounds, self.zero_points))
                           for bounds in ([limit.min for limit in limits], [limit.max for limit in limits]))
        if least < -(1 << 31) or greatest >= 1 << 31:
            raise UsageError(f"multipliers must leave all sums, with zero_point * 2**shift, within 32 bits, not {self.multipliers} "
                             f"(sums from {least} to {greatest})")

    @property
    def name(self) -> str:
        return "add"

    def variants(self) -> Sequence[Self]:
        """See ``Problem``."""
        return [self] if self.method else [replace(self, method=method) for method in ("threads", "panel")]

    @property
    def constant(self) -> int:
        """Added to the products."""
        (first, second), (a_zero, b_zero) = self.multipliers, self.zero_points
        return (int(self.output.zero_point) << int(self.output.shift)) - first * a_zero - second * b_zero


class SumKernel(Kernel):
    """Sum of a ``SumProblem`` on core 0. Operands: ``a``, ``b`` and the result ``c``, each filled up to a multiple of 16 bytes.

    Uniform predicates: up0 parity of the chunk that is loaded, up2 scratch.
    """

    def __init__(self, cfg: Config, problem: SumProblem) -> None:
        super().__init__(cfg, problem)
        check_tensors(cfg, problem.name)
        self.round_bytes = 4 * cfg.threads * _PASSES
        self.blocks = -(-problem.nbytes // BANK_BYTES)
        most = min(cfg.shared_bytes // 6, -(-BANK_BYTES * self.blocks // self.round_bytes) * self.round_bytes) // self.round_bytes
        if not most:
            raise Unfit("shared_memory_kib")
        self.rounds = min(range(1, most + 1), key=self._cycles)
        self.chunk = self.rounds * self.round_bytes
        # a and b twice, then results twice.
        self.slots, self.stages = (0, 2 * self.chunk), (4 * self.chunk, 5 * self.chunk)
        check_regions(cfg, [Region(f"chunk {number}", number * self.chunk, self.chunk) for number in range(6)])
        self.text = KernelText(["a", "b", "c", "to", "slot", "other_slot", "stage", "other_stage", "from", "blocks", "bytes", "in_left",
                                "out_left", "rounds", "first", "parity"])

    @classmethod
    def estimate(cls, cfg: Config, problem: SumProblem) -> int:
        """Cycles, roughly."""
        kernel = cls(cfg, problem)
        return int(kernel._cycles(kernel.rounds))

    def _cycles(self, rounds: int) -> float:
        """Expected cycles with chunks of so many rounds."""
        chunk, nbytes, cfg = rounds * self.round_bytes, BANK_BYTES * self.blocks, self.cfg
        work, count = thread_cycles(cfg, self._round(0)) * rounds + _CHUNK, nbytes / chunk
        return _START + 3 * min(chunk, nbytes) / cfg.axi_bytes + max(count, 1) * max(work, 2 * chunk / cfg.axi_bytes)

    def bound(self) -> float:
        """Cycles that no run of this program can beat: those of the thread unit for all elements, with every lane at work and nothing
        waiting; or, if more, those of the bytes of a and b on the bus."""
        nbytes = self.problem.nbytes
        return max(thread_cycles(self.cfg, self._round(0)) * nbytes / self.round_bytes, 2 * nbytes / self.cfg.axi_bytes)

    def launches(self, operands: Operands | None = None) -> list[Launch]:
        """One ``Launch``."""
        operands = operands or Operands()
        return [Launch(self.programs[0], self.text.values({
            "a": operands.a, "b": operands.b, "c": operands.c, "slot": self.slots[0], "other_slot": self.slots[1],
            "stage": self.stages[0], "other_stage": self.stages[1], "in_left": self.blocks, "out_left": self.blocks, "first": 1,
            "parity": 0}))]

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        text, blocks = self.text, self.chunk // BANK_BYTES
        text("    umov {to}, %core", "    usetp.ne up2, {to}, 0", "    @up2 bra end", f"    segment.shared.b8.d1 ur{_SHARED}, 0",
             f"    mov r{_TID}, %tid", f"    shl r{_TID}, r{_TID}, 2", "chunk:", "    usetp.ne up0, {parity}, 0",
             "    usetp.le up2, {in_left}, 0", "    @up2 bra loaded", f"    umin {{blocks}}, {{in_left}}, {blocks}",
             "    ushl {bytes}, {blocks}, 5", f"    @!up0 barrier.expect b{_LOADED[0]}, {{bytes}}",
             f"    @up0 barrier.expect b{_LOADED[1]}, {{bytes}}", "    umov {to}, {slot}")
        for name in ("a", "b"):
            text(f"    @!up0 copy_block.shared.global {{to}}, {{{name}}}, {{blocks}}, b{_LOADED[0]}",
                 f"    @up0 copy_block.shared.global {{to}}, {{{name}}}, {{blocks}}, b{_LOADED[1]}",
                 f"    uadd {{to}}, {{to}}, {self.chunk}", f"    uadd {{{name}}}, {{{name}}}, {self.chunk}")
        text(f"    usub {{in_left}}, {{in_left}}, {blocks}", "loaded:", "    umov {to}, {slot}", "    umov {slot}, {other_slot}",
             "    umov {other_slot}, {to}", "    uxor {parity}, {parity}, 1", "    usetp.eq up2, {first}, 0", "    @up2 bra work",
             "    umov {first}, 0", "    bra chunk", "work:", f"    @up0 barrier.wait b{_LOADED[0]}",
             f"    @!up0 barrier.wait b{_LOADED[1]}", "    wait_group.read 1", f"    add r{_PLACE}, r{_TID}, {{slot}}",
             f"    add r{_STAGE}, r{_TID}, {{stage}}", f"    umin {{blocks}}, {{out_left}}, {blocks}", "    ushl {rounds}, {blocks}, 4",
             "round:", *self._round(self.chunk), f"    usub {{rounds}}, {{rounds}}, {self.round_bytes}", "    usetp.gt up2, {rounds}, 0",
             "    @up2 bra round", "    wait.thread", "    copy_block.global.shared {c}, {stage}, {blocks}", "    commit_group",
             f"    uadd {{c}}, {{c}}, {self.chunk}", "    umov {from}, {stage}", "    umov {stage}, {other_stage}",
             "    umov {other_stage}, {from}", f"    usub {{out_left}}, {{out_left}}, {blocks}", "    usetp.gt up2, {out_left}, 0",
             "    @up2 bra chunk", "end:", "    halt")
        return [text]

    def _round(self, apart: int) -> list[str]:
        """Words of two passes of all threads; b lies ``apart`` bytes behind a."""
        passes = [self._pass(number, apart) for number in range(_PASSES)]
        return [*chain.from_iterable(zip(*passes)), f"    add r{_PLACE}, r{_PLACE}, {self.round_bytes}",
                f"    add r{_STAGE}, r{_STAGE}, {self.round_bytes}"]

    def _pass(self, number: int, apart: int) -> list[str]:
        problem, spec = self.problem, self.problem.output
        first, place, packed = 12 + 8 * number, 4 * self.cfg.threads * number, 8 + number
        lines = []
        for part, dtype in enumerate(problem.dtypes):
            load, register = "ld.s8" if dtype == np.int8 else "ld.u8", first + 4 * part
            distance = place + part * apart
            lines += [f"    {load} r{register + byte}, ur{_SHARED}:r{_PLACE}:{distance + byte}" for byte in range(4)]
        lines += [f"    mul.v4 r{first + 4 * part}, r{first + 4 * part}, {factor}" for part, factor in enumerate(problem.multipliers)]
        lines += [f"    add r{first + byte}, r{first + byte}, r{first + 4 + byte}" for byte in range(4)]
        limits, (minimum, maximum) = np.iinfo(spec.dtype), spec.bounds
        for name, value, needless in (("add", problem.constant, 0), ("max", minimum << spec.shift, limits.min << spec.shift),
                                      ("min", maximum << spec.shift, limits.max << spec.shift)):
            lines += [f"    {name}.v4 r{first}, r{first}, {value}"] * (value != needless)
        form = "s8" if spec.dtype == np.int8 else "u8"
        return [*lines, f"    narrow.{form} r{packed}, r{first}, {spec.shift}", f"    st.b32 ur{_SHARED}:r{_STAGE}:{place}, r{packed}"]
