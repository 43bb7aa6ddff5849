"""Tensor copies in the bench of the TMAU: descriptors in memory, requests, the golden model."""

from dataclasses import replace

import numpy as np
from cocotb.triggers import RisingEdge
from heddle.interfaces.tensor_operation import tensor_operation_layout
from heddle.isa.encoding import Space, Swizzle
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import DESCRIPTOR_BYTES, Interleave, TensorMode
from heddle_sim.golden.block_copy import CopyOperation
from heddle_sim.golden.tensor_checks import first_violation, understood, unsupported_value
from heddle_sim.golden.tensor_copy import load_tensor, store_tensor
from heddle_sim.golden.tensor_fields import TensorFields
from heddle_sim.golden.tensor_traversal import swizzled_addresses

from ..coverage.tmau import sample_tensor
from ..stimulus.tensor_requests import random_fields, random_request, request_members
from .tmau_environment import CopyBench

__all__ = ["DESCRIPTORS", "TensorBench", "TensorWorkload"]

DESCRIPTORS = 24        # in memory, at the beginning
ROW = 128


class TensorBench(CopyBench):
    """The TMAU with operations on tensors beside those on blocks."""

    async def start(self):
        await super().start()
        self._special_floats()
        self.allowed = np.zeros(len(self.shared), bool)
        self.times["tensor"] = []
        self.inputs.append(self.source("i_tensor", tensor_operation_layout(), pause=self._operation_pause(),
                                        on_item=lambda _: self.times["tensor"].append(self.cycle)))

    def _special_floats(self):
        """Half of the words of memory are 32-bit floats that round, overflow, are subnormal, infinite or no numbers."""
        words = self.memory.view("<u4")
        fractions = np.array([0, 0xFFF, 0x1000, 0x1001, 0x3000, 0x3FF000, 0x7FE000, 0x7FF000, 0x7FFFFF], np.uint32)
        fractions = self.rng.choice(fractions, len(words))
        exponents = self.rng.choice(np.array([0, 1, 127, 254, 255], np.uint32), len(words))
        chosen = self.rng.random(len(words)) < 0.5
        words[chosen] = (words & np.uint32(1 << 31) | exponents << np.uint32(23) | fractions)[chosen]
        self.golden_memory[:] = self.memory

    def describe(self, number, fields):
        """Puts descriptor ``number`` into memory; returns its address."""
        place = slice(number * DESCRIPTOR_BYTES, (number + 1) * DESCRIPTOR_BYTES)
        self.memory[place] = self.golden_memory[place] = np.frombuffer(fields.encode(), np.uint8)
        return place.start

    def issue(self, operation, golden=True):
        if operation.blocks and golden:
            shared = operation.destination if operation.destination_space == Space.SHARED else operation.source
            if operation.destination_space == Space.SHARED and not shared % 16:
                self._allow(shared, 16 * operation.blocks, operation.swizzle)
        super().issue(operation, golden)

    def _allow(self, start, nbytes, swizzle):
        places = swizzled_addresses(np.arange(start, start + nbytes), swizzle)
        self.allowed[places[places < len(self.allowed)]] = True

    def issue_tensor(self, fields, request, barrier=None, golden=True):
        """Queue a request for the descriptor that stands in memory at ``request.descriptor``, and execute it on the golden arrays."""
        pc = self.random.randrange(4096)
        members = request_members(request, barrier=barrier or 0, has_barrier=int(barrier is not None), pc=pc)
        self.issued += 1
        self.inputs[1].put({"address": request.descriptor, "request": members})
        if not golden:
            return
        fields = TensorFields.decode(fields.encode())
        violation = first_violation(understood(self.cfg, fields), request, self.cfg.shared_bytes, self.cfg.axi_address_bits)
        if violation is not None:
            value = getattr(violation.value, "value", violation.value) & 0xFFFF_FFFF
            self.expected_errors[violation.error.value, pc, value, violation.dimension or 0] += 1
        elif (lacking := unsupported_value(self.cfg, fields, request)) is not None:
            self.expected_errors[ErrorCode.UNSUPPORTED.value, pc, lacking, 0] += 1
        else:
            self._execute(fields, request, barrier)

    def _execute(self, fields, request, barrier):
        sample_tensor(fields, request)
        where = request.coordinates, request.shared_address
        if request.store:
            self.unmoved += fields.bytes
            store_tensor(self.golden_memory, self.golden_shared, fields, *where, request.reduction)
        else:
            self._allow(request.shared_address, fields.room, fields.swizzle)
            load_tensor(self.golden_memory, self.golden_shared, fields, *where, request.offsets)
        if barrier is not None:
            self.expected_arrivals[barrier] += fields.bytes
        self.expected_accesses["failed"] += 1       # how often banks are read and written is not counted here

    async def idle(self):
        await super().idle()
        self.allowed[:] = False

    async def forget(self):
        """Make the unit forget all descriptors: others will stand at their addresses."""
        self.dut.invalidate.value = 1
        for number in range(DESCRIPTORS):
            self.dut.invalidate_address.value = number * DESCRIPTOR_BYTES
            await RisingEdge(self.dut.clk)
        self.dut.invalidate.value = 0


def smaller_box(rng, fields, store):
    """The same tensor with a box that fits it, if it has rows that are long enough."""
    nbytes, plain = fields.unit_bytes, fields.interleave == Interleave.NONE
    row = fields.box[0] if fields.mode == TensorMode.TILE else fields.channels_per_pixel
    row = min(row, fields.sizes[0] * nbytes // 16 * 16 // nbytes or row) if plain else min(row, fields.sizes[0])
    if fields.mode == TensorMode.TILE:
        return replace(fields, box=(row, *(int(rng.integers(1, min(box, size) + 1))
                                                     for box, size in zip(fields.box[1:], fields.sizes[1:]))))
    corners = tuple(0 if store else -int(rng.integers(2)) for _ in fields.lower_corner)
    return replace(fields, channels_per_pixel=row, lower_corner=corners, upper_corner=corners,
                   pixels_per_column=int(rng.integers(1, 4)))


def at_the_beginning(rng, fields, request):
    """The same request at the first element of every dimension, or in some of them before it where that is allowed."""
    back = int(not request.store and rng.random() < 0.7)
    before = back and fields.interleave == Interleave.NONE and rng.random() < 0.3
    first = -(16 // fields.unit_bytes) if before else request.coordinates[0] if rng.random() < 0.5 and not back else 0
    if fields.mode == TensorMode.IM2COL:
        coordinates = (first, *fields.lower_corner, 0)
    else:
        coordinates = (first, *(-back * int(rng.integers(2)) * (count > 1) for count in fields.counts[1:]))
    return replace(request, coordinates=coordinates, offsets=tuple(0 for _ in request.offsets))


class TensorWorkload:
    """Requests and block copies whose ranges do not meet within a batch: loads use the lower halves of the memories, stores the upper."""

    def __init__(self, bench):
        self.bench, self.rng = bench, bench.rng

    async def restart(self):
        """Begin a batch; nothing may be under way."""
        await self.bench.forget()
        shared, memory = self.bench.cfg.shared_bytes, len(self.bench.memory)
        self.shared = {False: [0, shared // 2], True: [shared // 2, shared]}       # by store: next byte, end
        self.place = {False: [DESCRIPTORS * DESCRIPTOR_BYTES, memory // 2], True: [memory // 2, memory]}
        self.described = 0

    def _take(self, space, nbytes):
        """The start of the next ``nbytes``, or None where there is no room."""
        start = -(-space[0] // ROW) * ROW
        if start + nbytes > space[1]:
            return None
        space[0] = start + nbytes
        return start

    def tensor(self, store, **options):
        """Issue a request that breaks no rule; false when the batch is full."""
        bench, rng = self.bench, self.rng
        if self.described == DESCRIPTORS:
            return False
        while True:
            fields = random_fields(rng, bench.cfg, memory_bytes=1 << 14, **options)
            if store and fields.mode == TensorMode.IM2COL:
                fields = replace(fields, lower_corner=tuple(max(0, value) for value in fields.lower_corner),
                                 upper_corner=tuple(min(0, value) for value in fields.upper_corner))
                if any(size + high - low < 1 for size, low, high in zip(fields.sizes[1:], fields.lower_corner, fields.upper_corner)):
                    continue
            settled = rng.random() < 0.5
            fields = smaller_box(rng, fields, store) if settled else fields
            request = random_request(rng, bench.cfg, fields, store=store, reductions=bench.cfg.reductions)
            request = at_the_beginning(rng, fields, request) if settled else request
            if fields.room <= bench.cfg.shared_bytes // 2 and first_violation(
                    understood(bench.cfg, fields), request, bench.cfg.shared_bytes, bench.cfg.axi_address_bits) is None:
                break
        shared = self._take(self.shared[store], -(-fields.room // ROW) * ROW)
        # Loads may read the same places; what is stored must not meet.
        space = self.place[store] if store else list(self.place[store])
        if not store:
            space[0] += ROW * int(rng.integers(0, (space[1] - space[0] - (1 << 15)) // ROW))
        base = self._take(space, fields.address % ROW + fields.tensor_bytes)
        if shared is None or base is None:
            return False
        fields = replace(fields, address=base + fields.address % ROW)
        request = replace(request, shared_address=shared, descriptor=bench.describe(self.described, fields))
        self.described += 1
        barrier = int(rng.integers(16)) if rng.random() < 0.6 else None
        for _ in range(1 if store else int(rng.integers(1, 3))):
            bench.issue_tensor(fields, request, barrier)
        return True

    def blocks(self, store):
        """Issue a copy of blocks; false when the batch is full."""
        rng = self.rng
        blocks, near, far = int(rng.integers(0, 40)), int(rng.integers(8)), int(rng.integers(8))
        shared = self._take(self.shared[store], -(-16 * (blocks + near) // ROW) * ROW)
        place = self._take(self.place[store], 16 * (blocks + far))
        if shared is None or place is None:
            return False
        shared, place = shared + 16 * near, place + 16 * far
        spaces = (Space.GLOBAL, Space.SHARED) if store else (Space.SHARED, Space.GLOBAL)
        self.bench.issue(CopyOperation(
            *spaces, place if store else shared, shared if store else place, blocks, swizzle=Swizzle(int(rng.integers(4))),
            barrier=int(rng.integers(16)), has_barrier=int(rng.integers(2)), pc=int(rng.integers(4096))))
        return True
