"""Copies of tensors on the generated hardware and on the functional simulator: shared memory, global memory and errors must be equal."""

import numpy as np
from heddle_sim.device import Device, DeviceError
from heddle_sim.device.execution import execute
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.kernels.copies import BlockCopy, TensorCopy
from heddle_sim.kernels.planner import plan

from ..coverage.tmau import sample_tensor
from .programs import differing, random_settings

__all__ = ["DESCRIPTOR", "MEMORY_BYTES", "TENSOR_BYTES", "compare_tensor_copies", "pair"]

MEMORY_BYTES = 1 << 17
TENSOR_BYTES = MEMORY_BYTES - (1 << 15)         # behind them a descriptor, and shared memory as it is brought out
BATCH = 20              # cases on the same device, with the same behaviour of its memory
DESCRIPTOR = TENSOR_BYTES


def pair(rng, cfg):
    memory = rng.integers(0, 256, MEMORY_BYTES, np.uint8)
    devices = (Device(cfg, "verilator", memory_bytes=MEMORY_BYTES, memory_settings=random_settings(rng), timeout_cycles=1_000_000),
               Device(cfg, "golden", memory_bytes=MEMORY_BYTES))
    for device in devices:
        device.memory.bytes[:] = memory
    return devices


def outcome(device, fields, request, cfg):
    """The error of a copy, or None; afterwards shared memory lies in global memory."""
    start, error = request.descriptor if request.descriptor % 64 == 0 and request.descriptor < TENSOR_BYTES + 4096 else DESCRIPTOR, None
    device.write(start, np.frombuffer(fields.encode(), np.uint8))
    try:
        execute(device, plan(cfg, TensorCopy(request, TensorFields.decode(fields.encode()).bytes)))
    except DeviceError as problem:
        error = problem.code, problem.pc, problem.operand, problem.dimension
    execute(device, plan(cfg, BlockCopy(0, MEMORY_BYTES - cfg.shared_bytes, cfg.shared_bytes, to_shared=False)))
    return error


def compare_tensor_copies(cases, rng, cfg):
    """Every case on both; returns the codes of the errors. The memory of each batch behaves in its own way."""
    codes = []
    for start in range(0, len(cases), BATCH):
        device, golden = pair(rng, cfg)
        with device, golden:
            for each in (device, golden):       # what shared memory holds at first
                execute(each, plan(cfg, BlockCopy(0, 0, cfg.shared_bytes, to_shared=True)))
            for fields, request in cases[start:start + BATCH]:
                found, expected = outcome(device, fields, request, cfg), outcome(golden, fields, request, cfg)
                assert found == expected, f"{found}, not {expected}: {fields} {request}"
                codes.append(expected and expected[0])
                if expected is None:
                    sample_tensor(TensorFields.decode(fields.encode()), request)
                assert np.array_equal(device.memory.bytes, golden.memory.bytes), (
                    f"{differing(device.memory.bytes, golden.memory.bytes)}: {fields} {request}")
    return codes
