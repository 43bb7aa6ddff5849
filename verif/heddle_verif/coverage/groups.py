"""All covergroups, by name, in the order of the report."""

from . import errors, front_end, l2, matrix, presets, recurrent, sparse, streams, thread, tiles, tmau

__all__ = ["GROUPS"]

GROUPS = {group.name: group for group in (
    matrix.OPERATION, matrix.ACCESS, matrix.INSTRUCTION, tmau.BLOCKS, tmau.TENSORS, l2.REQUEST, l2.EVENT, recurrent.TASK, sparse.JOB,
    thread.ALU, thread.COMPARE, thread.MEMORY, thread.GATHER, thread.OTHER, front_end.INSTRUCTION, front_end.STALL,
    errors.REPORTED, errors.RUN, tiles.HANDED, tiles.CLEARED, streams.TRANSFER, streams.QUEUE, presets.RUN)}
