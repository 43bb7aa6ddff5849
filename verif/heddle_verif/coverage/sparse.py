"""Coverage of the sparse engine: jobs of each kind, what their operands and results are, and how rows lie."""

import numpy as np
from heddle.isa.sparse_job import (
    BOUNDS_ROW,
    ELEMENTS_OF_WORD,
    JOB_BYTES,
    POINTER_BYTES,
    PanelTarget,
    SparseKind,
    scale_bounds_layout,
)
from heddle_sim.golden.sparse_engine import read_job

from .model import Exclusion, Group

__all__ = ["JOB", "sample_job"]

LOADS = {PanelTarget.PANEL: "panel", PanelTarget.WEIGHTS: "weights", PanelTarget.SCALES: "scales"}
_LOADED = tuple(LOADS.values())
VALUES = ("int8", "uint8", "int16", "none")
WORDS = STRIPS = ("1", "2", "more")
SUB_WARPS = ("1", "2", "4")
RESULTS = ("sums", "bytes, one shift", "bytes, own shifts", "bytes, own shifts, rounded twice")     # these have shifts of their own

JOB = Group(
    "sparse.job", "A job that the engine has done, in its bench.",
    {"kind": ("rows", "depthwise", "samples", *LOADS.values()), "values": VALUES, "panel": ("signed", "unsigned"),
     "left": ("by rows", "by columns"), "words": WORDS, "results": RESULTS, "strips": STRIPS, "sub_warps": SUB_WARPS,
     "rows": ("all empty", "some empty", "none empty"), "begins": ("at a word", "within a word")},
    crosses=[("kind", "values"), ("kind", "panel"), ("kind", "results"), ("kind", "strips"), ("kind", "rows"), ("kind", "begins"),
             ("kind", "sub_warps"), ("sub_warps", "values"), ("sub_warps", "panel"), ("sub_warps", "rows"),
             ("left", "words"), ("left", "values"), ("left", "panel"), ("left", "rows"), ("results", "strips")],
    exclude=[
        Exclusion("it loads bytes", kind=_LOADED, values=VALUES),
        Exclusion("it loads bytes", kind=_LOADED, panel=("signed", "unsigned")),
        Exclusion("it has no rows of a sparse matrix", kind=_LOADED, rows=("all empty", "some empty", "none empty")),
        Exclusion("it has no elements", kind=_LOADED, begins=("at a word", "within a word")),
        Exclusion("it leaves no results of rows", kind=[*LOADS.values(), "samples"], results=RESULTS),
        Exclusion("its sums are of all PEs", kind="samples", strips=STRIPS),
        Exclusion("its PEs have no rows of their own", kind=("depthwise", "samples", "weights", "scales"), sub_warps=SUB_WARPS[1:]),
        Exclusion("sub-warps have values", sub_warps=SUB_WARPS[1:], values="none"),
        Exclusion("rows have values", kind="rows", values="none"),
        Exclusion("the PEs have the values", kind="depthwise", values=VALUES[:3])])


def sample_job(registers, shared, address):
    """Count a job that is done: ``EngineRegisters`` of the golden model, and shared memory, uint8, with its record and row pointers."""
    job = read_job(shared[address:address + JOB_BYTES])
    if job.kind is SparseKind.PANEL:
        JOB.sample(**dict.fromkeys(JOB.points) | {"kind": LOADS[PanelTarget(job.target)], "strips": _strips(job),
                                                      "sub_warps": _sub_warps(job)})
        return
    pointers = shared[job.pointers:job.pointers + POINTER_BYTES * (job.rows + 1)].view("<u4")
    empty, value = np.diff(pointers) == 0, "int16" if job.wide_values else "uint8" if job.unsigned_values else "int8"
    sample = dict.fromkeys(JOB.points) | {
        "panel": "unsigned" if job.unsigned_panel else "signed",
        "rows": "all empty" if empty.all() else "some empty" if empty.any() else "none empty",
        "begins": "within a word" if pointers[0] % ELEMENTS_OF_WORD else "at a word"}
    if job.kind is SparseKind.SAMPLES:
        sample |= {"kind": "samples", "values": "none" if job.pattern else value,
                   "left": "by columns" if job.left_by_columns else "by rows", "words": WORDS[min(job.words, len(WORDS)) - 1]}
    else:
        sample |= {"kind": "depthwise" if job.depthwise else "rows", "values": "none" if job.depthwise else value,
                   "results": _results(registers) if job.scaled else "sums", "strips": _strips(job)}
    sample["sub_warps"] = _sub_warps(job)
    JOB.sample(**sample)


def _results(registers):
    bounds = scale_bounds_layout.from_bits(int(registers.scales[BOUNDS_ROW, 0]))
    return f"bytes, {'own shifts' if bounds.own_shifts else 'one shift'}{', rounded twice' if bounds.double_rounding else ''}"


def _sub_warps(job):
    return str(1 << job.strips if job.sub_warps and job.kind is not SparseKind.SAMPLES else 1)


def _strips(job):
    return STRIPS[min(job.strips, len(STRIPS) - 1)]
