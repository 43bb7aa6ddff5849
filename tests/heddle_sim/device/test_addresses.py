"""Addresses of copies are exact in their full width: what leaves global memory is an error, on both simulators, before anything moves."""

from dataclasses import replace

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.encoding import Space
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import TensorMode
from heddle_sim.device import Device, DeviceError
from heddle_sim.functional.simulator import FunctionalSimulator
from heddle_sim.golden.block_copy import CopyOperation, check_copy
from heddle_sim.golden.tensor_checks import TensorRequest, descriptor_violations
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.isa import assemble
from heddle_sim.kernels.copies import TensorCopy
from heddle_sim.kernels.planner import plan
from heddle_sim.tensor.tensor_map import TensorMap, TensorMapError

CFG = load_config("tiny")
MEMORY_BYTES, DESCRIPTOR, TIMEOUT_CYCLES = 1 << 16, 1 << 15, 60_000
SPACE = 1 << CFG.axi_address_bits
ROWS = TensorFields(address=4096, sizes=(32, 2), strides=(64,), box=(32, 2), element_strides=(1, 1))
HERE = TensorRequest(coordinates=(0, 0), descriptor=DESCRIPTOR)


@pytest.fixture(scope="module", params=["tiny", pytest.param("base", marks=pytest.mark.nightly)])
def devices(request):
    """Hardware and functional simulator."""
    cfg = load_config(request.param)
    with (Device(cfg, "verilator", memory_bytes=MEMORY_BYTES, timeout_cycles=TIMEOUT_CYCLES) as hardware,
          Device(cfg, "golden", memory_bytes=MEMORY_BYTES, timeout_cycles=TIMEOUT_CYCLES) as golden):
        yield hardware, golden


def errors(devices, program, uniform=None, under_way=False):
    """The error of a program, the same on both, or None; and global memory before it, which is the same on both afterwards.

    With ``under_way`` copies before the wrong one may be cut short by the error: each byte is as before or as the functional simulator
    leaves it.
    """
    found, memory = [], np.random.default_rng(1).integers(0, 256, MEMORY_BYTES, np.uint8)
    cfg = devices[0].cfg
    fill = assemble(f"copy_block.shared.global ur0, ur0, {min(cfg.shared_bytes, MEMORY_BYTES) // 16}\nwait.copy\nhalt", cfg)
    kept = bytes(devices[1].memory.bytes[DESCRIPTOR:DESCRIPTOR + 128])
    memory[DESCRIPTOR:DESCRIPTOR + 128] = np.frombuffer(kept, np.uint8)
    for device in devices:
        device.memory.bytes[:] = memory
        device.run(fill, {0: 0})        # shared memory too is the same on both: a copy that an error cut short leaves it different
        try:
            device.run(program, uniform)
            found.append(None)
        except DeviceError as error:
            found.append((error.code, error.operand, error.dimension))
    assert found[0] == found[1]
    hardware, golden = (device.memory.bytes for device in devices)
    assert ((hardware == golden) | (under_way & (hardware == memory))).all()
    return found[0], memory


def of_tensor(devices, fields, request, code, value=None, dimension=0):
    """A request has this error (None: it has none) on both, and then nothing is moved."""
    for device in devices:
        device.write(DESCRIPTOR, np.frombuffer(fields.encode(), np.uint8))
    launch, = plan(devices[0].cfg, TensorCopy(request, TensorFields.decode(fields.encode()).bytes)).launches()
    found, memory = errors(devices, launch.program, launch.uniform)
    assert found == (code and (code, value, dimension)), found
    if code:
        assert np.array_equal(devices[0].memory.bytes, memory)
        image = np.frombuffer(fields.encode(), np.uint8)
        assert np.array_equal(devices[0].memory.bytes[DESCRIPTOR:DESCRIPTOR + 128], image)


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("row", [0, 1])
def test_a_stride_of_4_gib(devices, store, row):
    """Row 1 lies nowhere: it is not row 0."""
    fields = replace(ROWS, strides=(1 << 32,), box=(32, 1))
    of_tensor(devices, fields, replace(HERE, coordinates=(0, row), store=store), ErrorCode.TENSOR_EXTENT, 1, 1)


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("changes, value, dimension", [
    ({"address": SPACE - 16}, 31, 0),
    ({"address": SPACE - 32, "strides": (16,)}, 1, 1),
    ({"address": 0, "strides": (SPACE - 16,)}, 1, 1),
    ({"sizes": (1 << 32, 1)}, SPACE - 1, 0),
    ({"sizes": (32, 1 << 32)}, SPACE - 1, 1),
    ({"sizes": (32, 1 << 28), "strides": (16,)}, (1 << 28) - 1, 1),
    ({"sizes": (32, (1 << 14) + 1), "strides": (1 << 18,), "address": 0}, 1 << 14, 1),
    ({"sizes": (32, (1 << 20) + 1), "strides": (1 << 32,)}, 1 << 20, 1),
])
def test_a_tensor_that_leaves_the_address_space(devices, store, changes, value, dimension):
    of_tensor(devices, replace(ROWS, **changes), replace(HERE, store=store), ErrorCode.TENSOR_EXTENT, value, dimension)


@pytest.mark.parametrize("changes", [
    {"address": SPACE - 96},
    {"address": 0, "strides": (SPACE - 32,)},
    {"address": 0, "strides": (0,), "sizes": (32, 1 << 32)},
])
def test_the_last_byte_of_the_address_space(devices, changes):
    """A tensor that ends there is legal: row 0 lies in memory or the memory of this device says that it does not."""
    fields = replace(ROWS, **changes)
    assert descriptor_violations(fields, CFG.axi_address_bits) == []
    if fields.address:
        of_tensor(devices, fields, HERE, ErrorCode.AXI_READ, fields.address)
    else:
        of_tensor(devices, replace(fields, box=(32, 1)), HERE, None)


@pytest.mark.parametrize("coordinate", [-1 << 31, (-1 << 31) + 1, -(1 << 30), -(1 << 28) - 1, (1 << 28) + 1, 1 << 30, (1 << 31) - 1])
@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_far_coordinates_are_filled(devices, coordinate, dimension):
    """Of every 32-bit coordinate: far is far, whatever it would be modulo the address space."""
    fields = replace(ROWS, sizes=(32, 2, 3), strides=(64, 128), box=(16, 3, 2), element_strides=(1, 1, 1))
    coordinates = [0, -1, 1]
    coordinates[dimension] = coordinate & -16 if dimension == 0 else coordinate
    of_tensor(devices, fields, replace(HERE, coordinates=tuple(coordinates)), None)
    columns = replace(fields, mode=TensorMode.IM2COL, box=(), lower_corner=(0,), upper_corner=(0,), pixels_per_column=9,
                      channels_per_pixel=16)
    if dimension != 1:
        coordinates[1] = 1
        of_tensor(devices, columns, replace(HERE, coordinates=tuple(coordinates), mode=TensorMode.IM2COL, offsets=(65535,)), None)


@pytest.mark.parametrize("code, address", [(ErrorCode.TENSOR_DESCRIPTOR_ADDRESS, SPACE - 64), (ErrorCode.AXI_READ, SPACE - 128)])
def test_a_descriptor_at_the_end(devices, code, address):
    """128 bytes of a descriptor do not go on at address 0."""
    of_tensor(devices, ROWS, replace(HERE, descriptor=address), code, address)


@pytest.mark.parametrize("destination, source, operand", [
    ((0, 16), (16, -16), SPACE - 16),           # before the beginning of global memory
    ((16, -16), (0, 16), SPACE - 16),           # of shared memory
    ((0, 1 << 30), (0, 16), 1 << 30),
])
@pytest.mark.parametrize("store", [False, True])
def test_rows_do_not_wrap(devices, store, destination, source, operand):
    """A row that begins before address 0 is an error, and no row after it is copied."""
    if store:
        spaces, destination, source = "global.shared", source, destination
    else:
        spaces = "shared.global"
    uniform = dict(enumerate([*destination, *source, 1, 5]))
    found, _ = errors(devices, assemble(f"copy_rows.{spaces} ur0, ur2, ur4\nwait.copy\nhalt", devices[0].cfg), uniform, under_way=True)
    assert found == (ErrorCode.OUT_OF_RANGE, operand, 0)


@pytest.mark.parametrize("end", ["source", "destination"])
@pytest.mark.parametrize("address, operand", [(-16, SPACE - 16), (SPACE, 0), (SPACE + 32, 32), (-SPACE, 0)])
def test_exact_addresses_of_blocks(end, address, operand):
    """The rule of a row behind 32 bits; bench ``copy``, ``rejected``, asks the hardware."""
    operation = CopyOperation(Space.SHARED, Space.GLOBAL, **{"destination": 0, "source": 0, end: address}, blocks=1)
    assert check_copy(CFG, operation) == (ErrorCode.OUT_OF_RANGE, operand)


def test_four_billion_rows_end():
    """Each row counts at the limit of the functional simulator."""
    for blocks in (0, 1):
        simulator = FunctionalSimulator(CFG, np.zeros(64, np.uint8))
        result = simulator.run(assemble("copy_rows.shared.global ur0, ur2, ur4\nhalt", CFG), uniform={4: blocks, 5: SPACE - 1},
                               instruction_limit=20_000)
        assert (result.error, result.operand) == (ErrorCode.TIMEOUT, 20_000)
        result = simulator.run(assemble("copy_rows.shared.global ur0, ur2, ur4\nhalt", CFG), uniform={5: 19_999}, instruction_limit=20_000)
        assert result.ok and result.instructions == 2


@pytest.mark.parametrize("blocks", [(SPACE >> 4) - 1, SPACE >> 4])
def test_a_prefetch_of_all_memory_ends(devices, blocks):
    """No more than the second level holds is asked for."""
    cfg = devices[0].cfg
    program = assemble("prefetch_block ur0, ur1\nwait.copy\nhalt", cfg)
    found, _ = errors(devices, program, {0: 0, 1: blocks})
    assert found is None
    stats = devices[0].run(program, {0: 0, 1: blocks})
    assert stats.counters["level2_misses"] == (cfg.l2_kib << 10) // 128


def test_a_prefetch_of_a_huge_box_ends(devices):
    """A box that no copy can bring is not asked for."""
    fields = TensorFields(sizes=(256,) * 5, strides=(0,) * 4, box=(256,) * 5, element_strides=(1,) * 5)
    for device in devices:
        device.write(DESCRIPTOR, np.frombuffer(fields.encode(), np.uint8))
    program = assemble("invalidate_descriptor ur0\nprefetch_tensor.tile.5d ur0, ur1\nwait.copy\nhalt", devices[0].cfg)
    found, _ = errors(devices, program, {0: DESCRIPTOR, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0})
    assert found is None


def test_the_builder_refuses_what_no_device_reaches():
    """Behind 64 bits; a device says it for its own address space."""
    with pytest.raises(TensorMapError, match="last element of dimension 1 .* must lie in global memory"):
        TensorMap.build((1 << 32, 32), np.uint8, box=(1, 32), strides=((1 << 40) - 16,))
    TensorMap.build((1 << 24, 32), np.uint8, box=(1, 32), strides=((1 << 40) - 16,))
