"""All kernels of a device with random operands, compared with numpy, for random configurations.

``python -m heddle_verif.stimulus.kernel_cases SEED NUMBER`` runs the cases of one configuration; ``--help`` lists the options.
"""

import argparse
import dataclasses
import itertools
import re
import sys
from functools import partial

import numpy as np
from heddle.config import Config, ConfigError
from heddle_sim import Device, Requantise
from heddle_sim.device.execution import execute
from heddle_sim.golden.convolution import convolution
from heddle_sim.kernels.gather import GatherProblem
from heddle_sim.kernels.parts.merges import MERGES, Merge
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.problem import Operands

from .configurations import random_configurations
from .integers import check_equal, random_integers
from .layer_cases import image_cases, layer_cases
from .recurrent_layers import layer_operands, reference

__all__ = ["MEMORY_BYTES", "command", "kernel_cases", "name_of", "refusal_of", "run_cases"]

MEMORY_BYTES = 1 << 19
_BYTES, _WORDS = (np.int8, np.uint8), (np.int16, np.uint16)
_PARAMETERS = [field.name for field in dataclasses.fields(Config) if field.name != "name"]
_NAMED = re.compile(rf"\b(?:({'|'.join(_PARAMETERS)}) (?:must be|is|=)|must have ({'|'.join(_PARAMETERS)})\b)")
_AT_LEAST = re.compile(r"^(\w+) must be at least (\d+) for .*, not \d+$")
_TOLERANCE = 0.1        # of recurrent layers with weights of 8 bits


def _product(a, b):
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


# -- cases: each takes a device and a random generator ------------------------------------------


def matmul(device, rng, kinds=_BYTES, **options):
    """A product of any shape, from one of few elements to one of several tiles."""
    threads = device.cfg.threads
    m, n = (int(rng.choice([1, rng.integers(1, 20), rng.integers(1, 2 * threads + 3)])) for _ in range(2))
    k = int(rng.choice([1, rng.integers(1, 40), rng.integers(40, 150)]))
    if options.get("resident"):
        m, n, k = min(m, 20), min(n, 20), min(k, 70)
    a, b = (random_integers(rng, rng.choice(kinds), shape) for shape in ((m, k), (k, n)))
    check_equal(device.matmul(a, b, **options)[0], _product(a, b))


def rows_left(device, rng):
    """Three blocks of rows and four rows, which may have a run of their own."""
    threads = device.cfg.threads
    a, b = random_integers(rng, np.int8, (3 * threads + 4, 100)), random_integers(rng, np.uint8, (100, 3 * threads + 4))
    check_equal(device.matmul(a, b)[0], _product(a, b))


def linear(device, rng, bias=False, requantise=False, own=False):
    m, n, k = int(rng.integers(1, 50)), int(rng.integers(1, 2 * device.cfg.threads + 3)), int(rng.integers(1, 60))
    x, w = random_integers(rng, rng.choice(_BYTES), (m, k)), random_integers(rng, rng.choice(_BYTES), (k, n))
    offsets = rng.integers(-50000, 50000, n).astype(np.int32) if bias else None
    spec = None
    if requantise:
        factors = rng.integers(1 << 20, 1 << 21, n) if own else int(rng.integers(1 << 20, 1 << 21))
        shift, zero_point, relu = (int(rng.integers(low, high)) for low, high in ((28, 34), (0, 100), (0, 2)))
        spec = Requantise(factors, shift, zero_point, relu=bool(relu), dtype=rng.choice(_BYTES))
    sums = _product(x, w) + (offsets if bias else 0)
    check_equal(device.linear(x, w, offsets, spec)[0], spec.apply(sums) if spec else sums.astype(np.int32))


def tensordot(device, rng):
    a, b = random_integers(rng, np.int8, (2, 13, 3)), random_integers(rng, np.int8, (4, 13, 5))
    check_equal(device.tensordot(a, b, (1, 1))[0], np.tensordot(a.astype(np.int32), b.astype(np.int32), (1, 1)))


def conv(device, rng, spatial=2, group=1, method="im2col"):
    size, filters = (tuple(int(value) for value in rng.integers(low, high, spatial)) for low, high in ((4, 9), (1, 4)))
    channels, outputs = int(rng.choice([1, 3, 16, 40])), int(rng.integers(1, 21))
    x = random_integers(rng, rng.choice(_BYTES), (int(rng.integers(1, 3)), *size, channels * group))
    w = random_integers(rng, rng.choice(_BYTES), (outputs * group, *filters, channels))
    stride, dilation, pad = (int(rng.integers(low, 3)) for low in (1, 1, 0))
    if any((count - 1) * dilation + 1 > length + 2 * pad for count, length in zip(filters, size)):
        dilation = 1
    y, _ = device.conv(x, np.moveaxis(w, -1, 1), strides=stride, dilations=dilation, pads=pad, group=group, layout="NHWC", method=method)
    check_equal(y, convolution(x, w, ((pad, pad),) * spatial, (stride,) * spatial, (dilation,) * spatial, group))


def copy_block(device, rng, swizzle="none", nbytes=1040):
    array = random_integers(rng, np.uint8, (nbytes,))
    image, _ = device.copy_block(array, swizzle=swizzle)
    if swizzle == "none":
        check_equal(image, array)
    check_equal(np.sort(image[:nbytes // 128 * 128]), np.sort(array[:nbytes // 128 * 128]))
    check_equal(device.store_block(image, np.zeros_like(array), swizzle=swizzle)[0], array)


def store_block(device, rng, kind=np.int32):
    old, new = (random_integers(rng, np.int16, (52,)).astype(kind) for _ in range(2))
    check_equal(device.store_block(new.view(np.uint8), old, reduce="add")[0], old + new)


def move_block(device, rng, space="global", reduces=False):
    array, other = random_integers(rng, np.int32, (2, 156))
    options = {"into": other, "reduce": "add"} if reduces else {}
    check_equal(device.move_block(array, space=space, **options)[0], other + array if reduces else array)


def copy_tensor(device, rng, kind=np.int8, swizzle="none", stride=1, fill="zero"):
    """A box at the edge of an array, there and back again."""
    array = random_integers(rng, np.int8, (3, 11, 64)).astype(kind)
    columns = {"none": 64, "32B": 32, "64B": 64, "128B": 64}[swizzle] // (4 if kind == np.float32 else 1)
    options = {"box": (2, 8, columns), "coords": (1, 5, 0), "swizzle": swizzle, "element_strides": (1, stride, 1)}
    image, _ = device.copy_tensor(array, fill=fill, **options)
    inside = array[1:3, 5:5 + 8:stride, :columns]
    if swizzle == "none":
        expected = np.full((2, -(-8 // stride), columns), np.nan if fill == "nan" else 0).astype(kind)
        expected[:, :inside.shape[1]] = inside
        assert np.array_equal(image.view(kind), expected.ravel(), equal_nan=fill == "nan")
    wanted = np.zeros_like(array)
    wanted[1:3, 5:5 + 8:stride, :columns] = inside
    check_equal(device.store_tensor(image, np.zeros_like(array), **options)[0], wanted)


def copy_interleaved(device, rng, interleave="16B"):
    array = random_integers(rng, np.int8, (2, 5, 4, 64))
    swizzle, slices = {"16B": ("none", 4), "32B": ("32B", 2)}[interleave]
    options = {"box": (1, 4, 4, slices), "coords": (1, 0, 0, 0), "interleave": interleave, "swizzle": swizzle}
    image, _ = device.copy_tensor(array, **options)
    wanted = np.zeros_like(array)
    wanted[1, :4] = array[1, :4]
    check_equal(device.store_tensor(image, np.zeros_like(array), **options)[0], wanted)


def copy_pixels(device, rng):
    """A column of pixels of one row of images, without padding."""
    array = random_integers(rng, np.int8, (2, 9, 32))
    image, _ = device.copy_tensor(array, mode="im2col", coords=(0, 2, 0), lower_corner=(0,), upper_corner=(0,), pixels_per_column=16,
                                  channels_per_pixel=32)
    check_equal(image.view(np.int8), array.reshape(-1, 32)[2:18].ravel())


def prefetch(device, rng):
    array = random_integers(rng, np.int8, (4, 32))
    device.prefetch_tensor(array, box=(4, 32), coords=(0, 0))
    device.prefetch_block(0, 4096)


def gather(device, rng, swizzled=False):
    rows = random_integers(rng, np.uint8, (device.cfg.threads, 128))
    source, target = device.memory.place(rows), device.memory.reserve(rows.shape, np.uint8, fill=0)
    try:
        execute(device, plan(device.cfg, GatherProblem(swizzled)), Operands(a=source, c=target))
        check_equal(device.memory.matrix(target, rows.shape, np.uint8).copy(), rows)
    finally:
        device.free(source)
        device.free(target)


def recurrent(device, rng, kind="lstm", **options):
    """A small layer within the error of weights of 8 bits; on hardware the same, bit by bit, as on the functional simulator.

    ``options`` say what is left out.
    """
    x, *weights = layer_operands(rng, kind, int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 5)), batch=2)
    expected = reference(kind, x, *weights)
    found, _ = getattr(device, kind)(x, *weights, **options)
    for result, wanted in zip(found, expected, strict=True):
        assert np.abs(result - wanted).max() < _TOLERANCE, np.abs(result - wanted).max()
    if device.simulator != "golden":
        with Device(device.cfg, "golden", memory_bytes=MEMORY_BYTES) as golden:
            for result, wanted in zip(found, getattr(golden, kind)(x, *weights, **options)[0], strict=True):
                check_equal(result, wanted)


def kernel_cases(cfg):
    """(name, case) of every kernel for a configuration; a case takes a ``Device`` and a random generator."""
    cases = []
    for ka, kb in itertools.product(MERGES, MERGES):
        try:
            Merge(cfg.threads, cfg.dot, ka, kb)
        except ValueError:
            continue
        for number, (layout, resident) in enumerate(itertools.product(("nk", "kn"), (False, True))):
            order = ("k-outer", "column-outer")[(ka + kb + number // 2) % 2]
            cases.append(partial(matmul, kinds=_WORDS if (ka + 2 * kb + number) % 4 == 0 else _BYTES, ka=ka, kb=kb, b_layout=layout,
                                 resident=resident, order=order))
    cases += [partial(matmul, kinds=kinds, **options) for kinds in (_BYTES, _WORDS) for options in (
        {}, {"b_layout": "kn"}, {"resident": True}, {"resident": True, "b_layout": "kn"})]
    cases += [partial(matmul) for _ in range(4)]
    cases += [partial(linear, **dict.fromkeys(names, True)) for names in (
        (), ("bias",), ("requantise",), ("bias", "requantise"), ("requantise", "own"), ("bias", "requantise", "own"))]
    cases += [tensordot, conv, partial(conv, group=2), partial(conv, spatial=1), partial(conv, spatial=3)]
    cases += [partial(copy_block, swizzle=swizzle) for swizzle in ("none", "32B", "64B", "128B")] + [partial(copy_block, nbytes=8192)]
    cases += [partial(store_block, kind=kind) for kind in (np.int32, np.float32)]
    cases += [partial(move_block, space=space) for space in ("global", "shared")]
    cases += [partial(copy_tensor, **options) for options in (
        {}, {"stride": 2}, {"kind": np.float32}, {"kind": np.float32, "fill": "nan"}, {"swizzle": "32B"}, {"swizzle": "64B"},
        {"swizzle": "128B"})]
    cases += [copy_interleaved, partial(copy_interleaved, interleave="32B"), copy_pixels, prefetch, gather, partial(gather, swizzled=True)]
    cases += [partial(recurrent, kind=kind) for kind in ("lstm", "gru", "rnn")]
    cases += layer_cases()
    cases += [rows_left, *(partial(move_block, space=space, reduces=True) for space in ("global", "shared"))]
    cases += [partial(recurrent, kind="gru", skip_zeros=True), partial(recurrent, kind="lstm", threshold=0.0)]
    return cases + image_cases()


def name_of(case):
    if not isinstance(case, partial):
        return case.__name__
    shown = {key: "/".join(kind.__name__ for kind in value) if key == "kinds" else getattr(value, "__name__", value)
             for key, value in case.keywords.items()}
    return f"{case.func.__name__}({', '.join(f'{key}={value}' for key, value in shown.items())})"


def refusal_of(error):
    """The parameter that a refusal names, or ``None``."""
    match = _NAMED.search(str(error))
    return match and (match[1] or match[2])


def command(seed, number, small=False, simulator="golden", case=None):
    """The line that runs the cases of a configuration, or one of them, again."""
    options = " --small" * small + f" --simulator {simulator}" * (simulator != "golden") + ("" if case is None else f" --case {case}")
    return f"python -m heddle_verif.stimulus.kernel_cases {seed} {number}{options}"


def _attempt(device, case, seed, number, index):
    """What refuses a case, or ``None`` where it ran and was right."""
    try:
        case(device, np.random.default_rng([seed, number, index]))
    except (ValueError, TypeError) as error:
        if refusal_of(error) is None:
            raise
        return error
    finally:
        assert device.memory.allocator.used == 0, "allocations must be freed"
    return None


def run_cases(seed, number, *, small=False, simulator="golden", only=None, say=None):
    """All cases, or the one with number ``only``, on configuration ``number`` of ``random_configurations(seed)``.

    A case must be right, or refused by an error that names a parameter of the configuration; where that says how large the parameter must
    be at least, the case must not be refused for it there. Returns ``(cfg, {index: error})`` of the refusals. Raises ``AssertionError``
    with the line that repeats the failure.
    """
    cfg, refusals = random_configurations(seed, number + 1, small=small)[number], {}
    with Device(cfg, simulator, memory_bytes=MEMORY_BYTES, timeout_cycles=2_000_000) as device:
        for index, case in enumerate(kernel_cases(cfg)):
            if only not in (None, index):
                continue
            try:
                error = _attempt(device, case, seed, number, index)
                if error is not None:
                    refusals[index] = error
                    _check_least(cfg, error, case, seed, number, index)
            except Exception as problem:
                raise AssertionError(f"{name_of(case)} on {cfg}: {type(problem).__name__}: {problem}\nrepeat: "
                                     f"{command(seed, number, small, simulator, index)}") from problem
            if say:
                say(f"{index:3} {name_of(case)}: {'right' if error is None else f'refused: {error}'}")
    return cfg, refusals


def _check_least(cfg, refusal, case, seed, number, index):
    """A value that is said to be enough is enough, where the configuration may have it."""
    match = _AT_LEAST.match(str(refusal))
    if not match:
        return
    try:
        enough = cfg.replace(**{match[1]: int(match[2])})
    except ConfigError:
        return
    with Device(enough, "golden", memory_bytes=MEMORY_BYTES) as device:
        again = _attempt(device, case, seed, number, index)
    assert again is None or refusal_of(again) != match[1], f"with {match[1]} = {match[2]} too: {again}"


def main(arguments=None):
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m heddle_verif.stimulus.kernel_cases", description=run_cases.__doc__.split("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("number", type=int, nargs="?", help="configuration; all 40 without it")
    parser.add_argument("--small", action="store_true", help="configurations that Verilator builds in a minute")
    parser.add_argument("--simulator", choices=("golden", "verilator"), default="golden")
    parser.add_argument("--case", type=int)
    options = parser.parse_args(arguments)
    for number in range(40) if options.number is None else [options.number]:
        cfg, refusals = run_cases(options.seed, number, small=options.small, simulator=options.simulator, only=options.case,
                                  say=print if options.number is not None else None)
        print(f"{cfg.name}: {len(kernel_cases(cfg)) - len(refusals)} cases right, {len(refusals)} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
