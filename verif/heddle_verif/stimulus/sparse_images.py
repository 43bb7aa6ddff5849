"""A job of the sparse engine in an image of shared memory of ``tiny``: the program that runs it, and ways to break it."""

import numpy as np
from heddle.isa.sparse_job import JOB_BYTES, sparse_job_layout
from heddle_sim.golden.sparse_engine import read_job
from heddle_sim.sparse.job import job_record

__all__ = ["B", "END", "IMAGE_BYTES", "MEMORY", "PACKAGE", "PANEL", "POINTERS", "SOURCE", "changed", "job_program", "set_index",
           "set_pointer"]

MEMORY, END = 1 << 16, 1 << 14                  # bytes of global memory, of shared memory
IMAGE_BYTES = END // 2
PACKAGE, PANEL, B = 0x1000, 0x40, 0x800         # in shared memory: the package of the job, the record of its panel, the panel
POINTERS = PACKAGE + JOB_BYTES
SOURCE = 0x8000                                 # in global memory: the image


def job_program(output, nbytes):
    """Text of a program: the image comes to shared memory, panel and the job at ``ur3`` run, ``nbytes`` bytes at ``output`` go to 0."""
    return f"""
    umov ur0, 0
    umov ur1, {SOURCE}
    barrier.expect b0, {IMAGE_BYTES}
    copy_block.shared.global ur0, ur1, {IMAGE_BYTES // 16}, b0
    barrier.wait b0
    umov ur2, {PANEL}
    sparse ur2
    sparse ur3
    wait_sparse 0
    umov ur4, {output}
    copy_block.global.shared ur0, ur4, {nbytes // 16}
    halt
"""


def changed(shared, **fields):
    """Give the record of the job other fields."""
    job = read_job(shared[PACKAGE:POINTERS])
    kept = {name: getattr(job, name) for name, _ in sparse_job_layout if name != "kind"}
    shared[PACKAGE:POINTERS] = job_record(**{"kind": job.kind.value} | kept | fields)


def set_pointer(shared, number, value):
    """Change a pointer of the package."""
    shared[POINTERS + 4 * number:POINTERS + 4 * number + 4] = np.array([value], "<u4").view(np.uint8)


def set_index(shared, rows, element, value):
    """Change the index of an element of a package with ``rows`` rows."""
    at = POINTERS + -(-(rows + 1) * 4 // 16) * 16 + 2 * element
    shared[at:at + 2] = np.array([value], "<u2").view(np.uint8)
