"""Programs of single copies: a box of a tensor, or blocks of 16 bytes, between global and the shared memory of core 0."""

from heddle.constants import BANK_BYTES
from heddle.isa.tensor_descriptor import TensorMode

from ..isa import assemble
from .parts.fitting import assemble_kernel, fitted
from .parts.launch import Launch
from .parts.text import KernelText

__all__ = ["MOST_STARTS", "block_copy", "block_move", "block_prefetch", "repeated_copies", "tensor_copy", "tensor_prefetch"]


MOST_STARTS = 48        # boxes of ``repeated_copies`` of rank 1


def _first_core(text, emit):
    """The program of ``emit``, for core 0; the others end at once."""
    text("    umov {core}, %core", "    usetp.ne up0, {core}, 0", "    @up0 bra end")
    emit()
    text("end:", "    halt")


class _TensorText:
    """What programs about a tensor have in common: names of registers, form of the instruction, values.

    The coordinates lie in neighbouring registers, innermost first, and so do the offsets.
    """

    def __init__(self, request, more=()):
        rank, pixels = len(request.coordinates), request.mode == TensorMode.IM2COL
        coordinates, offsets = [f"c{d}" for d in range(rank)], [f"o{d}" for d in range(rank - 2)] if pixels else []
        names = ["core", "shared", "descriptor", "bytes", *coordinates, *offsets, *more]
        self.text = KernelText(names)
        self.form = f"{request.mode.name.lower()}.{rank}d"
        self.operands = "{descriptor}, {c0}" + ", {o0}" * pixels
        values = {"shared": request.shared_address, "descriptor": request.descriptor}
        values |= dict(zip(coordinates, request.coordinates)) | dict(zip(offsets, request.offsets))
        self.uniform = {number: values.get(name, 0) for number, name in enumerate(names)}
        self.uniform_bytes = names.index("bytes")

    def launch(self, cfg, emit):
        _first_core(self.text, emit)
        return Launch(fitted(cfg, "copies of tensors", lambda cfg: assemble_kernel(self.text, cfg)), self.uniform)


def tensor_copy(cfg, request, nbytes):
    """``copy_tensor`` of a box of ``nbytes`` bytes as a ``TensorRequest`` says; a load waits at a barrier for its bytes."""
    program = _TensorText(request)
    program.uniform[program.uniform_bytes] = nbytes
    reduction = f".{request.reduction.name.lower()}" if request.reduction.value else ""

    def emit():
        # The descriptor was written by the host: a copy of what lay at its address before must not be used.
        program.text("    invalidate_descriptor {descriptor}")
        if request.store:
            program.text(f"    copy_tensor.{program.form}.global.shared{reduction} {{shared}}, {program.operands}", "    wait.copy")
        else:
            program.text("    barrier.expect b0, {bytes}",
                         f"    copy_tensor.{program.form}.shared.global {{shared}}, {program.operands}, b0", "    barrier.wait b0")
    return program.launch(cfg, emit)


def repeated_copies(cfg, request, nbytes, places, count, step):
    """A first copy, which brings the descriptor, and when it is over ``count`` copies back to back, between global memory and one of
    ``places`` in shared memory after the other. Each box lies ``step`` further in the outermost dimension than the one before:
    there are at most ``MOST_STARTS`` of rank 1, whose coordinates all stand in registers, so that no other instruction comes between."""
    names, rank = [f"place{number}" for number in range(len(places))], len(request.coordinates)
    starts = [f"start{number}" for number in range(count + 1)] if rank == 1 else []
    program = _TensorText(request, ["all_bytes", *names, *starts])
    first = program.uniform_bytes + rank + len(request.offsets) + 1
    values = [count * nbytes, *places, *(number * step for number in range(len(starts)))]
    program.uniform |= {program.uniform_bytes: nbytes, **{first + number: value for number, value in enumerate(values)}}
    outermost = f"c{rank - 1}"

    def copies(chosen, total, box):
        if not chosen:
            return
        spaces, barrier = ("global.shared", "") if request.store else ("shared.global", ", b0")
        lines = []
        for number, place in enumerate(chosen):
            operands = f"{{descriptor}}, {{{starts[box + number]}}}" if starts else program.operands
            lines.append(f"    copy_tensor.{program.form}.{spaces} {{{place}}}, {operands}{barrier}")
            if not starts:
                lines.append(f"    uadd {{{outermost}}}, {{{outermost}}}, {step}")
        if request.store:
            program.text(*lines, "    wait.copy")
            return
        program.text(f"    barrier.expect b0, {{{total}}}", *lines, "    barrier.wait b0", "    wait.copy")

    def emit():
        program.text("    invalidate_descriptor {descriptor}")
        copies(names[:1], "bytes", 0)
        copies([names[number % len(names)] for number in range(count)], "all_bytes", 1)
    return program.launch(cfg, emit)


def tensor_prefetch(cfg, request):
    """``prefetch_tensor`` of a box."""
    program = _TensorText(request)

    def emit():
        program.text("    invalidate_descriptor {descriptor}", f"    prefetch_tensor.{program.form} {program.operands}")
    return program.launch(cfg, emit)


def _reduces(reduction):
    """Modifiers of a reduction and its format, or of none."""
    return "".join(f".{part.name.lower()}" for part in reduction or ())


def block_copy(cfg, shared_address, global_address, nbytes, to_shared, swizzle="none", reduction=None):
    """``copy_block`` of a multiple of 16 bytes; ``reduction``: a pair of ``Reduction`` and ``TensorFormat``."""
    text = KernelText(["core", "shared", "global", "blocks"])
    spaces, operands = (".shared.global", "{shared}, {global}") if to_shared else (".global.shared", "{global}, {shared}")
    swizzled = ("" if swizzle == "none" else f".{swizzle}") + _reduces(reduction)
    _first_core(text, lambda: text(f"    copy_block{spaces}{swizzled} {operands}, {{blocks}}", "    wait.copy"))
    return Launch(assemble(str(text), cfg), {1: shared_address, 2: global_address, 3: nbytes // BANK_BYTES})


def block_move(cfg, space, destination, source, nbytes, reduction=None):
    """``copy_block`` of a multiple of 16 bytes within ``space``, "shared" or "global"."""
    text = KernelText(["core", "destination", "source", "blocks"])
    _first_core(text, lambda: text(f"    copy_block.{space}.{space}{_reduces(reduction)} {{destination}}, {{source}}, {{blocks}}",
                                   "    wait.copy"))
    return Launch(assemble(str(text), cfg), {1: destination, 2: source, 3: nbytes // BANK_BYTES})


def block_prefetch(cfg, address, nbytes):
    """``prefetch_block`` of a multiple of 16 bytes."""
    text = KernelText(["core", "global", "blocks"])
    _first_core(text, lambda: text("    prefetch_block {global}, {blocks}"))
    return Launch(assemble(str(text), cfg), {1: address, 2: nbytes // BANK_BYTES})
