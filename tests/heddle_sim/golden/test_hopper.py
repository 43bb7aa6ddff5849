"""The golden models of tensor copies against what an H200 did (``hopper.json``; how it was made: docs/hopper.md).

A load is compared by a digest of shared memory from 128 bytes before its box on, which is 0xA5 where the copy writes nothing; a store by
one of global memory from 128 bytes before its tensor on. Reductions and conversions are compared number by number.
"""

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.tensor_descriptor import FORMAT_BYTES, Fill, TensorFormat, TensorMode
from heddle_sim.golden.reductions import reduce_elements
from heddle_sim.golden.tensor_checks import TensorRequest, descriptor_violations, request_violations
from heddle_sim.golden.tensor_copy import converted, load_tensor, store_tensor
from heddle_sim.golden.tensor_fields import TensorFields

VECTORS = json.loads((Path(__file__).parent / "hopper.json").read_text())
SOURCE_BYTES = 64 << 20     # the tensors of loads lie in them
SHARED_BYTES = 225 << 10
UNTOUCHED, BEFORE = 0xA5, 128


def numbers(seed, count):
    """64-bit numbers of SplitMix64, a published generator."""
    with np.errstate(over="ignore"):
        word = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ word >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ word >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return word ^ word >> np.uint64(31)


@cache
def source():
    """What the tensors of loads lie in. The low 32 bits of some words are changed: halves of the last place of TF32, subnormal numbers,
    infinities and NaNs.
    """
    words = numbers(int(VECTORS["seed"], 16), SOURCE_BYTES // 8)
    kind, low = words >> np.uint64(60), words & np.uint64(0xFFFF_FFFF)
    changed = {3: low & np.uint64(0xFFFF_E000) | np.uint64(0x1000), 5: low & np.uint64(0x807F_FFFF), 9: low | np.uint64(0x7F80_0000)}
    for number, value in changed.items():
        words = np.where(kind == number, words ^ low ^ value, words)
    return words.view(np.uint8)


def fields_of(case):
    tuples = ("sizes", "strides", "box", "element_strides", "lower_corner", "upper_corner")
    return TensorFields(
        mode=TensorMode[case["mode"].upper()], format=TensorFormat[case["format"]], address=case["address"],
        swizzle=Swizzle(case.get("swizzle", 0)), fill=Fill(case.get("fill", 0)),
        **{name: tuple(case[name]) for name in tuples if name in case},
        **{name: case[name] for name in ("pixels_per_column", "channels_per_pixel") if name in case})


def offsets_of(case):
    return tuple(case.get("offsets", (0,) * max(0, len(case["sizes"]) - 2)))


def request_of(case, store):
    return TensorRequest(mode=TensorMode[case["mode"].upper()], coordinates=tuple(case["coordinates"]), shared_address=case["shared"],
                         offsets=offsets_of(case) if case["mode"] == "im2col" else (), store=store)


def digest(values):
    return hashlib.sha256(values.tobytes()).hexdigest()[:16]


def test_loads():
    wrong = []
    for number, case in enumerate(VECTORS["loads"]):
        fields, first = fields_of(case), case["shared"] - BEFORE
        shared = np.full(first + case["bytes"], UNTOUCHED, np.uint8)
        load_tensor(source(), shared, fields, tuple(case["coordinates"]), case["shared"], offsets_of(case))
        if digest(shared[first:]) != case["digest"] or request_violations(fields, request_of(case, False), SHARED_BYTES):
            wrong.append(number)
    assert not wrong, f"{len(wrong)} of {len(VECTORS['loads'])} loads differ, of descriptors {wrong[:10]}"


def test_stores():
    """Elements outside the tensor are left alone. An H200 writes the last 16 bytes of a row as a whole; they were taken out."""
    wrong = []
    for number, case in enumerate(VECTORS["stores"]):
        fields, first = fields_of(case), case["address"] - BEFORE
        memory = np.full(first + case["bytes"], UNTOUCHED, np.uint8)
        shared = np.concatenate([np.zeros(case["shared"], np.uint8),
                                 numbers(int(case["seed"]), -(-case["source"] // 8)).view(np.uint8)[:case["source"]]])
        store_tensor(memory, shared, fields, tuple(case["coordinates"]), case["shared"])
        if digest(memory[first:]) != case["digest"] or request_violations(fields, request_of(case, True), SHARED_BYTES):
            wrong.append(number)
    assert not wrong, f"{len(wrong)} of {len(VECTORS['stores'])} stores differ, of descriptors {wrong[:10]}"


def test_refused_requests():
    """Requests that an H200 ended with an error break a rule."""
    accepted = [case for case in VECTORS["refused"] if not request_violations(fields_of(case), request_of(case, bool(case["store"])),
                                                                              SHARED_BYTES)]
    assert not accepted


def test_descriptors():
    """What CUDA's library takes as a descriptor breaks no rule; what it refuses does."""
    different = [case for case in VECTORS["descriptors"] if (not descriptor_violations(fields_of(case), 57)) != case["legal"]]
    assert not different


@pytest.mark.parametrize("name", VECTORS["reductions"])
def test_reductions(name):
    reduction, format = name.split()
    format = TensorFormat[format]
    nbytes = FORMAT_BYTES[format]
    old, new, expected = (np.frombuffer(b"".join(int(value, 16).to_bytes(nbytes, "little") for value in column), np.uint8)
                          for column in zip(*VECTORS["reductions"][name]))
    assert (reduce_elements(Reduction[reduction], format, old, new) == expected).all()


@pytest.mark.parametrize("format", VECTORS["tf32"])
def test_rounding_to_tf32(format):
    before, after = (np.array([int(value, 16) for value in column], "<u4") for column in zip(*VECTORS["tf32"][format]))
    assert (converted(TensorFormat[format], before.view(np.uint8)).view("<u4") == after).all()
