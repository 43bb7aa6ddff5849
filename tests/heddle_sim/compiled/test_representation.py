"""Compiled representation of convolutions: the figures of its document, every layout, orders, and files [S2.1-S2.6]."""

import hashlib
import itertools
import json
import time
from pathlib import Path

import numpy as np
import pytest
from heddle.errors import UsageError
from heddle_sim.cli.convolution_suites import SUITES
from heddle_sim.compiled import LAYOUTS, Geometry, ImageLayout, Representation, compile_convolution, line_fetches
from heddle_sim.compiled.layout import ImageStrides
from heddle_sim.golden.convolution import convolution
from heddle_verif.stimulus.convolutions import random_geometry


def geometry(images=1, size=(4, 4), channels=1, outputs=1, filter=(3, 3), padding=None, stride=None, dilation=None, group=1):
    ones = (1,) * len(size)
    return Geometry(images, size, channels, outputs, filter, padding or ((0, 0),) * len(size), stride or ones, dilation or ones, group)


def test_figures_13_and_14():
    """Four threads on an image of 4 x 4 with a filter of 3 x 3: bases, offsets, and the elements that each thread multiplies."""
    made = compile_convolution(geometry(), "NCHW", order="natural")
    assert made.bases.tolist() == [0, 1, 4, 5]
    assert made.offsets.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    assert made.steps.tolist() == [0, 1, 1, 2, 1, 1, 2, 1, 1]      # the running address of Fig. 12
    a, b = np.array([1, 3, 2, 7, *range(12)], np.int8).reshape(1, 1, 4, 4), np.arange(9, dtype=np.int8).reshape(3, 3)
    for thread, (row, column) in enumerate(itertools.product(range(2), range(2))):
        assert made.gather(a)[thread].tolist() == a[0, 0, row:row + 3, column:column + 3].reshape(-1).tolist()
        assert made.gather(a)[thread].astype(int) @ b.reshape(-1) == np.sum(a[0, 0, row:row + 3, column:column + 3].astype(int) * b)


def test_figure_15():
    """Global address = base of (n, h, w) + offset of (c, r, s), for every image, pixel, channel and filter position."""
    images, channels, rows, columns = 2, 3, 5, 7
    shape = geometry(images, (rows, columns), channels, 4, (3, 2), stride=(2, 1))
    made = compile_convolution(shape, "NCHW", np.int16, order="natural")
    high, wide = shape.result
    for pixel, (n, p, q) in enumerate(itertools.product(range(images), range(high), range(wide))):
        assert made.bases[pixel] == 2 * (n * channels * rows * columns + p * 2 * columns + q)
    for k, (c, r, s) in enumerate(itertools.product(range(channels), range(3), range(2))):
        assert made.offsets[k] == 2 * (c * rows * columns + r * columns + s)


def test_fully_connected_layers_are_the_case_without_positions():
    made = compile_convolution(geometry(5, (1,), 20, 3, (1,)), "NCHW")
    assert made.bases.tolist() == [0, 20, 40, 60, 80] and made.offsets.tolist() == list(range(20))


def grouped(x, w, shape, zero_point):
    """The golden model, channels last, whose padding is ``zero_point``."""
    padded = np.pad(x, ((0, 0), *shape.padding, (0, 0)), constant_values=zero_point)
    return convolution(padded, np.moveaxis(w, 1, -1), ((0, 0),) * shape.spatial, shape.stride, shape.dilation, shape.group)


@pytest.mark.parametrize("name", LAYOUTS)
def test_gathered_rows_are_those_of_the_convolution(name):
    """Random geometries: rows by bases, offsets and masks, times filters in that order, are what the golden model computes."""
    rng, layout = np.random.default_rng(LAYOUTS.index(name)), ImageLayout(name)
    for _ in range(12):
        shape, zero_point = random_geometry(rng, layout.spatial), int(rng.integers(-128, 128))
        x = rng.integers(-128, 128, (shape.images, *shape.size, shape.channels), np.int8)
        w = rng.integers(-128, 128, (shape.outputs, shape.group_channels, *shape.filter), np.int8)
        stored = layout.from_channels_last(x)
        assert stored.shape == layout.shape(shape.images, shape.channels, shape.size)
        assert np.array_equal(layout.to_channels_last(stored, shape.channels), x)
        sizes = layout.sizes(stored.shape)
        assert (sizes[0], sizes[2]) == (shape.images, shape.size) and sizes[1] - shape.channels in range(layout.vector)
        made = compile_convolution(shape, name, order=str(rng.choice(["auto", "natural", "position", "memory"])))
        parts = [made.gather(stored, group, zero_point).astype(np.int64) @ made.arranged(filters).T.astype(np.int64)
                 for group, filters in enumerate(np.split(w, shape.group))]
        y = np.concatenate(parts, axis=-1).reshape(shape.images, *shape.result, shape.outputs)
        assert np.array_equal(y, grouped(x, w, shape, zero_point)), shape


def test_line_fetches_are_those_of_the_least_recently_used():
    bases = np.arange(4)
    assert line_fetches(bases, np.array([0, 4, 128, 0]), lines=2) == 2
    assert line_fetches(bases, np.array([0, 128, 256, 0]), lines=2) == 4
    assert line_fetches(np.array([0, 500]), np.array([0, 1]), lines=4) == 2
    assert line_fetches(np.array([126]), np.array([0, 1, 2]), lines=4) == 2


@pytest.mark.parametrize("name, channels", [("NHWC", 64), ("NCHWc16", 64), ("NCHW", 64)])
def test_chosen_order_fetches_no_more_lines(name, channels):
    """The chosen order is the best of the candidates; channel after channel, or position after position, fetches many times as many."""
    shape = geometry(1, (14, 14), channels, 8, padding=((1, 1),) * 2)
    fetches = {order: compile_convolution(shape, name, order=order).lines(32) for order in ("natural", "position", "memory", "auto")}
    assert fetches["auto"] == min(fetches.values())
    assert max(fetches.values()) >= 5 * fetches["auto"]


@pytest.mark.parametrize("name, chosen, natural, position", [
    ("NCHW", 94, 94, 718), ("NHWC", 32, 2048, 32), ("NCHWc4", 46, 46, 286), ("NCHWc16", 34, 34, 178)])
def test_line_fetches_of_the_page(name, chosen, natural, position):
    shape = geometry(1, (14, 14), 64, 8, padding=((1, 1),) * 2)
    made = compile_convolution(shape, name)
    assert (made.lines(32), made.natural_lines(32)) == (chosen, natural)
    assert compile_convolution(shape, name, order="position").lines(32) == position
    row = f"| `{name}` | {chosen} | {natural:,} | {position} |"
    assert row in (Path(__file__).parents[3] / "docs/convolution.md").read_text()


def test_files(tmp_path):
    shape = geometry(2, (5, 6), 12, 4, (3, 2), ((1, 0), (2, 1)), (2, 1), (1, 2), 2)
    made = compile_convolution(shape, "NCHWc8", np.uint8)
    path = tmp_path / "layer.bin"
    made.save(path)
    read = Representation.load(path)
    assert read.geometry == shape and read.layout == made.layout and read.strides == made.strides and read.itemsize == 1
    for name in ("bases", "offsets", "elements", "masks", "mask_bits"):
        assert np.array_equal(getattr(read, name), getattr(made, name))
    x = np.zeros(ImageLayout("NCHWc8").shape(2, 12, (5, 6)), np.int8)
    read.check(x)
    for wrong, says in ((x.astype(np.int16), "elements of 1 bytes as the representation was made for, not int16"),
                        (x[:1], "x must have shape (2, 2, 5, 6, 8) as the representation was made for (NCHWc8), not (1, 2, 5, 6, 8)")):
        with pytest.raises(ValueError) as error:
            read.check(wrong)
        assert says in str(error.value)


def test_damaged_and_foreign_files_are_refused(tmp_path):
    """A bit that flips anywhere, a file that is cut, and one of another kind."""
    path, rng = tmp_path / "layer.bin", np.random.default_rng(3)
    compile_convolution(geometry(), "NCHW").save(path)
    content = path.read_bytes()
    for place in [0, 5, 25, *map(int, rng.integers(0, len(content), 60)), len(content) - 1]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="must (have the checksum of its content|be a file of a compiled representation)"):
            Representation.load(path)
    for cut in (b"", content[:10], content[:-1], b"PK\3\4" + content):
        path.write_bytes(cut)
        with pytest.raises(ValueError):
            Representation.load(path)


def rewritten(path, change, arrays=None):
    """Parameters of a file, and its arrays by name, changed; with the right checksum."""
    content = path.read_bytes()[:-32]
    start = content.index(b"\n") + 1
    end = start + 8 + int.from_bytes(content[start:start + 8], "little")
    head, data = json.loads(content[start + 8:end]), bytearray(content[end:])
    for name, values in (arrays or {}).items():
        shapes = head["arrays"]
        before = sum(int(np.prod(shape)) for shape in list(shapes.values())[:list(shapes).index(name)])
        array = np.frombuffer(data, "<i8", int(np.prod(shapes[name])), 8 * before)
        data[8 * before:8 * before + array.nbytes] = values(array.copy()).astype("<i8").tobytes()
    change(head)
    text = json.dumps(head).encode()
    content = content[:start] + len(text).to_bytes(8, "little") + text + bytes(data)
    path.write_bytes(content + hashlib.sha256(content).digest())


@pytest.mark.parametrize("change, arrays, says", [
    (lambda head: head.pop("layout"), {}, "parameters must have the names geometry, layout, itemsize, strides, arrays, not geometry, "),
    (lambda head: head["geometry"].update(depth=3), {}, "geometry must have the names images, size, "),
    (lambda head: head["strides"].pop("image"), {}, "strides must have the names image, block, channel, axes, vector, not block, "),
    (lambda head: head.update(geometry=[1, 2]), {}, "geometry must have the names images, size, "),
    (lambda head: head["geometry"].update(size=[50, 50]), {}, "shapes of arrays must be {'bases': [2304], "),
    (lambda head: head["geometry"].update(size=[4.0, 4]), {}, "a value of size must be an integer, not 4.0"),
    (lambda head: head["arrays"].update(bases=[1 << 40]), {}, "shapes of arrays must be {'bases': [4], "),
    (lambda head: head.update(itemsize="1"), {}, "itemsize must be an integer, not '1'"),
    (lambda head: head.update(layout="HWCN"), {}, "layout must be one of NCW, "),
    (lambda head: head["strides"].update(axes=[4]), {}, "axes of strides must be a tuple of 2 integers, not (4,)"),
    (lambda head: None, {"offsets": lambda array: array + 10000}, "offsets must be those of the geometry, not others"),
    (lambda head: None, {"bases": lambda array: array - 1}, "bases must be those of the geometry, not others"),
    (lambda head: None, {"masks": lambda array: array + 1}, "masks must be those of the geometry, not others"),
    (lambda head: None, {"mask_bits": lambda array: array + 1}, "mask_bits must be those of the geometry, not others"),
    (lambda head: None, {"elements": lambda array: array * 0}, "elements must be the numbers 0 to 8, each once"),
])
def test_files_with_other_parameters_are_refused(change, arrays, says, tmp_path):
    """Of the right kind, with the right checksum."""
    path = tmp_path / "layer.bin"
    compile_convolution(geometry(), "NCHW").save(path)
    rewritten(path, change, arrays)
    with pytest.raises(UsageError) as error:
        Representation.load(path)
    assert f"must have the parameters and arrays of a compiled representation: {says}" in str(error.value)


def test_sizes_of_numpy_are_saved(tmp_path):
    shape = geometry(images=np.int64(2), size=(np.int32(4), 5))
    compile_convolution(shape, "NCHW").save(tmp_path / "layer.bin")
    assert Representation.load(tmp_path / "layer.bin").geometry == shape


MADE = compile_convolution(geometry(channels=8, group=2, outputs=4), "NCHW")


@pytest.mark.parametrize("make, says", [
    (lambda: MADE.gather(np.zeros((1, 8, 4, 4), np.int8), 5), "group must be from 0 to 1, not 5"),
    (lambda: MADE.gather(np.zeros((1, 8, 4, 4), np.int8), -1), "group must be from 0 to 1, not -1"),
    (lambda: MADE.arranged(np.zeros((4, 9, 3, 3), np.int8)),
     "w must have shape (outputs, 4, 3, 3) as the representation was made for, not (4, 9, 3, 3)"),
    (lambda: MADE.arranged(np.zeros((4, 2, 3, 3), np.int8)),
     "w must have shape (outputs, 4, 3, 3) as the representation was made for, not (4, 2, 3, 3)"),
    (lambda: MADE.check([[1]]), "x must be a numpy array, not list"),
    (lambda: MADE.check(np.zeros((1, 8, 4, 4), bool)), "x must be an array of numbers, not bool"),
    (lambda: compile_convolution(geometry(), strides=ImageStrides(99, 99, 1, (9, 1), 1)).gather(np.zeros((1, 1, 4, 4), np.int8)),
     "strides must be those of an array without gaps to gather from x, not ImageStrides("),
    (lambda: compile_convolution(geometry(), strides=ImageStrides(99, 99, 1, (9,), 1)),
     "axes of strides must be a tuple of 2 integers, not (9,)"),
    (lambda: compile_convolution(geometry(), strides=(9, 1)), "strides must be an ImageStrides, not tuple"),
    (lambda: compile_convolution(geometry(), dtype="x"), "dtype must be a numpy type, not 'x'"),
    (lambda: compile_convolution(geometry(), threads=0), "threads must be from 1 to 65536, not 0"),
    (lambda: geometry(group=0), "group must be from 1 to 2147483647, not 0"),
    (lambda: geometry(images=0), "images must be from 1 to 2147483647, not 0"),
    (lambda: geometry(channels=1.0), "channels must be an integer, not 1.0"),
    (lambda: geometry(padding=((0, 0), (-1, 0))), "a pair of padding must be at least 0, not (-1, 0)"),
    (lambda: geometry(padding=((0, 0),)), "padding must be a tuple of 2 pairs (begin, end), one for each axis of size, not ((0, 0),)"),
    (lambda: geometry(filter=(3,)), "filter must be a tuple of 2 integers, not (3,)"),
    (lambda: geometry(size=(4, 4, 4, 4), filter=(1,) * 4), "size must be a tuple of one to three integers, not (4, 4, 4, 4)"),
    (lambda: geometry(size=(4.0, 4)), "a value of size must be an integer, not 4.0"),
    (lambda: geometry(size=(0, 4)), "size must be at least 1, not (0, 4)"),
    (lambda: geometry(filter=(0, 1)), "filter must be at least 1, not (0, 1)"),
    (lambda: compile_convolution(geometry(), "HWCN"), "layout must be one of NCW, "),
    (lambda: compile_convolution(geometry(), "NCHW", order="best"), "order must be one of auto, natural, position, memory, not 'best'"),
    (lambda: compile_convolution(None), "geometry must be a Geometry, not NoneType"),
    (lambda: geometry(channels=3, group=2), "group must divide the 3 channels and 1 outputs, not be 2"),
    (lambda: geometry(filter=(5, 1)), "filters of w must fit the padded size (4, 4) of x, not have (5, 1) (dilations (1, 1))"),
    (lambda: geometry(stride=(0, 1)), "strides must be at least 1, not (0, 1)"),
    (lambda: ImageLayout("NCHWc8").sizes((1, 2, 4, 4, 4)),
     "an array of layout NCHWc8 must have shape (N, C, H, W, 8), not (1, 2, 4, 4, 4)"),
])
def test_wrong_use(make, says):
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert str(error.value).startswith(says)


@pytest.mark.parametrize("suite", SUITES)
def test_layers_are_made_in_less_than_a_tenth_of_a_second(suite):
    """Every layer of the benchmark, with the choice of the order: processor time, the shorter of two."""
    for layer, layout in itertools.product(SUITES[suite], ("NHWC", "NCHW")):
        seconds = []
        for _ in range(2):
            before = time.process_time()
            compile_convolution(layer.geometry(layer.image[0]), layout)
            seconds.append(time.process_time() - before)
        assert min(seconds) < 0.1, (layer, layout, seconds)
