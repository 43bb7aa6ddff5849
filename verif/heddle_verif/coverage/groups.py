"""All covergroups, by name, in the order of the report."""

from . import errors, front_end, matrix, presets, recurrent, streams, thread, tmau

__all__ = ["GROUPS"]

GROUPS = {group.name: group for group in (
    matrix.OPERATION, matrix.ACCESS, matrix.INSTRUCTION, tmau.BLOCKS, tmau.TENSORS, recurrent.TASK, thread.ALU, thread.COMPARE,
    thread.MEMORY, thread.OTHER, front_end.INSTRUCTION, front_end.GATE, errors.REPORTED, errors.RUN, streams.TRANSFER, streams.QUEUE,
    presets.RUN)}
