"""Copies: a box of a tensor, or blocks of 16 bytes, between global and the shared memory of core 0."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from heddle.config import Config
from heddle.constants import BANK_BYTES
from heddle.isa.encoding import Reduction
from heddle.isa.tensor_descriptor import TensorFormat, TensorMode

from ..golden.tensor_checks import TensorRequest
from .kernel import Kernel
from .parts.launch import Launch
from .parts.text import KernelText
from .problem import Problem

__all__ = ["MOST_STARTS", "BlockCopy", "BlockKernel", "BlockMove", "BlockPrefetch", "RepeatedCopies", "RepeatedCopiesKernel", "TensorCopy",
           "TensorCopyKernel", "TensorPrefetch", "TensorPrefetchKernel"]

MOST_STARTS = 48        # boxes of ``RepeatedCopies`` of rank 1


# -- problems -------------------------------------------------------------------------------


def _reduces(reduction: Iterable[Reduction | TensorFormat] | None) -> str:
    """Modifiers of a reduction and its format, or of none."""
    return "".join(f".{part.name.lower()}" for part in reduction or ())


class _Blocks(Problem):
    """Blocks of 16 bytes: ``values`` (name to value of the uniform registers) and ``lines`` of the program."""

    @property
    def name(self) -> str:
        return "copies of blocks"


@dataclass(frozen=True)
class BlockCopy(_Blocks):
    """``copy_block`` of ``nbytes`` bytes, a multiple of 16, between two addresses; ``to_shared`` or from there.

    ``swizzle``: "none" or "32B", "64B", "128B". ``reduction``: a pair of ``Reduction`` and ``TensorFormat``, or None.
    """

    shared_address: int
    global_address: int
    nbytes: int
    to_shared: bool
    swizzle: str = "none"
    reduction: tuple[Reduction, TensorFormat] | None = None

    @property
    def values(self) -> dict[str, int]:
        return {"shared": self.shared_address, "global": self.global_address, "blocks": self.nbytes // BANK_BYTES}

    @property
    def lines(self) -> list[str]:
        spaces, operands = (".shared.global", "{shared}, {global}") if self.to_shared else (".global.shared", "{global}, {shared}")
        modifiers = ("" if self.swizzle == "none" else f".{self.swizzle}") + _reduces(self.reduction)
        return [f"    copy_block{spaces}{modifiers} {operands}, {{blocks}}", "    wait.copy"]


@dataclass(frozen=True)
class BlockMove(_Blocks):
    """``copy_block`` of ``nbytes`` bytes, a multiple of 16, within ``space``, "shared" or "global"; ``reduction`` as for ``BlockCopy``."""

    space: str
    destination: int
    source: int
    nbytes: int
    reduction: tuple[Reduction, TensorFormat] | None = None

    @property
    def values(self) -> dict[str, int]:
        return {"destination": self.destination, "source": self.source, "blocks": self.nbytes // BANK_BYTES}

    @property
    def lines(self) -> list[str]:
        return [f"    copy_block.{self.space}.{self.space}{_reduces(self.reduction)} {{destination}}, {{source}}, {{blocks}}",
                "    wait.copy"]


@dataclass(frozen=True)
class BlockPrefetch(_Blocks):
    """``prefetch_block`` of ``nbytes`` bytes, a multiple of 16, at a global ``address``."""

    address: int
    nbytes: int

    @property
    def values(self) -> dict[str, int]:
        return {"global": self.address, "blocks": self.nbytes // BANK_BYTES}

    @property
    def lines(self) -> list[str]:
        return ["    prefetch_block {global}, {blocks}"]


class _Tensors(Problem):
    """Boxes of tensors."""

    @property
    def name(self) -> str:
        return "copies of tensors"


@dataclass(frozen=True)
class TensorCopy(_Tensors):
    """``copy_tensor`` of a box of ``nbytes`` bytes as ``request`` says; a load waits at a barrier for its bytes."""

    request: TensorRequest
    nbytes: int


@dataclass(frozen=True)
class RepeatedCopies(_Tensors):
    """A first copy, which brings the descriptor, and when it is over ``count`` copies back to back.

    They go between global memory and one of ``places`` in shared memory after the other. Each box has ``nbytes`` bytes and lies ``step``
    further in the outermost dimension than the one before. Of rank 1 there are at most ``MOST_STARTS``: their coordinates all stand in
    registers, so that no other instruction comes between.
    """

    request: TensorRequest
    nbytes: int
    places: tuple[int, ...]
    count: int
    step: int


@dataclass(frozen=True)
class TensorPrefetch(_Tensors):
    """``prefetch_tensor`` of a box as ``request`` says."""

    request: TensorRequest


# -- kernels --------------------------------------------------------------------------------


class _CopyKernel(Kernel):
    """Copies of core 0; the others end at once. A kernel has ``text`` and ``uniform``, the values of the uniform registers."""

    text: KernelText
    uniform: dict[int, int]

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        self.text("    umov {core}, %core", "    usetp.ne up0, {core}, 0", "    @up0 bra end")
        self.emit()
        self.text("end:", "    halt")
        return [self.text]

    @abstractmethod
    def emit(self) -> None:
        """Write the instructions of core 0."""

    def launches(self, operands: object = None) -> list[Launch]:
        """One ``Launch``; the problem has the addresses."""
        return [Launch(self.programs[0], self.uniform)]


class BlockKernel(_CopyKernel):
    """Block copy, move or prefetch."""

    def __init__(self, cfg: Config, problem: BlockCopy | BlockMove | BlockPrefetch) -> None:
        super().__init__(cfg, problem)
        self.text = KernelText(["core", *problem.values])
        self.uniform = dict(enumerate(problem.values.values(), 1))

    def emit(self) -> None:
        self.text(*self.problem.lines)


class _TensorKernel(_CopyKernel):
    """Tensor instructions: names of registers, form of the instruction, values.

    The coordinates lie in neighbouring registers, innermost first, and so do the offsets. ``more``: values of further registers, by name.
    """

    def __init__(self, cfg: Config, problem: TensorCopy | RepeatedCopies | TensorPrefetch, nbytes: int = 0,
                 more: dict[str, int] | None = None) -> None:
        super().__init__(cfg, problem)
        request, more = problem.request, more or {}
        rank, pixels = len(request.coordinates), request.mode == TensorMode.IM2COL
        coordinates, offsets = [f"c{d}" for d in range(rank)], [f"o{d}" for d in range(rank - 2)] if pixels else []
        names = ["core", "shared", "descriptor", "bytes", *coordinates, *offsets, *more]
        self.request, self.text = request, KernelText(names)
        self.form = f"{request.mode.name.lower()}.{rank}d"
        self.operands = "{descriptor}, {c0}" + ", {o0}" * pixels
        values = {"shared": request.shared_address, "descriptor": request.descriptor, "bytes": nbytes, **more}
        values |= dict(zip(coordinates, request.coordinates)) | dict(zip(offsets, request.offsets))
        self.uniform = {number: values.get(name, 0) for number, name in enumerate(names)}

    def emit(self) -> None:
        # The descriptor was written by the host: a copy of what lay at its address before must not be used.
        self.text("    invalidate_descriptor {descriptor}")
        self.copy()

    @abstractmethod
    def copy(self) -> None:
        """Write the instructions about the tensor."""


class TensorCopyKernel(_TensorKernel):
    """Tensor copy: one box."""

    def __init__(self, cfg: Config, problem: TensorCopy) -> None:
        super().__init__(cfg, problem, problem.nbytes)

    def copy(self) -> None:
        reduction = _reduces((self.request.reduction,)) if self.request.reduction.value else ""
        if self.request.store:
            self.text(f"    copy_tensor.{self.form}.global.shared{reduction} {{shared}}, {self.operands}", "    wait.copy")
        else:
            self.text("    barrier.expect b0, {bytes}",
                      f"    copy_tensor.{self.form}.shared.global {{shared}}, {self.operands}, b0", "    barrier.wait b0")


class RepeatedCopiesKernel(_TensorKernel):
    """Tensor copies back to back."""

    def __init__(self, cfg: Config, problem: RepeatedCopies) -> None:
        self.places = [f"place{number}" for number in range(len(problem.places))]
        self.rank = len(problem.request.coordinates)
        starts = {f"start{number}": number * problem.step for number in range(problem.count + 1)} if self.rank == 1 else {}
        self.starts = list(starts)
        super().__init__(cfg, problem, problem.nbytes, {
            "all_bytes": problem.count * problem.nbytes, **dict(zip(self.places, problem.places)), **starts})

    def copy(self) -> None:
        self._copies(self.places[:1], "bytes", 0)
        self._copies([self.places[number % len(self.places)] for number in range(self.problem.count)], "all_bytes", 1)

    def _copies(self, places: list[str], total: str, box: int) -> None:
        """Copies from or to ``places`` of the boxes from number ``box`` on; register ``total`` has their bytes."""
        if not places:
            return
        spaces, barrier = ("global.shared", "") if self.request.store else ("shared.global", ", b0")
        lines, outermost = [], f"{{c{self.rank - 1}}}"
        for number, place in enumerate(places):
            operands = f"{{descriptor}}, {{{self.starts[box + number]}}}" if self.starts else self.operands
            lines.append(f"    copy_tensor.{self.form}.{spaces} {{{place}}}, {operands}{barrier}")
            if not self.starts:
                lines.append(f"    uadd {outermost}, {outermost}, {self.problem.step}")
        if self.request.store:
            self.text(*lines, "    wait.copy")
        else:
            self.text(f"    barrier.expect b0, {{{total}}}", *lines, "    barrier.wait b0", "    wait.copy")


class TensorPrefetchKernel(_TensorKernel):
    """Tensor prefetch: one box."""

    def copy(self) -> None:
        self.text(f"    prefetch_tensor.{self.form} {self.operands}")
