"""``heddle show tensormap``: drawings and addresses are those of the golden model, cycles those of the banks."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from heddle_sim.draw.box_text import draw
from heddle_sim.golden.bank_access import gather_cycles
from heddle_sim.golden.tensor_copy import load_tensor
from heddle_sim.tensor.box_image import access, tensor_image
from heddle_sim.tensor.tensor_map import TensorMap
from heddle_verif.command_line import answer, call

SHOW = ["show", "tensormap"]
TILE_32_ROWS = [*SHOW, "--shape", "32", "128", "--box", "32", "128"]


def rows(capsys, *arguments):
    found = answer(capsys, *arguments)
    assert found["bench"] == "show tensormap"
    return tuple([row for row in found["rows"] if row["kind"] == kind] for kind in ("element", "access"))


@pytest.mark.parametrize("swizzle, pattern, cycles", [
    ("none", "column", (32, 32)), ("128B", "column", (32, 4)), ("128B", "row", (4, 4)), ("128B", "diagonal", (4, 32)),
])
def test_cycles_of_32_threads(capsys, swizzle, pattern, cycles):
    """What ``heddle bench gather`` measures on the hardware: 32 cycles for a column, 4 with the swizzle."""
    for block in (0, 5):
        _, (found,) = rows(capsys, *TILE_32_ROWS, "--swizzle", swizzle, "--access", pattern, "--block", str(block))
        assert (found["cycles"], found["swizzled_cycles"], found["threads"]) == (*cycles, 32)


@pytest.mark.parametrize("swizzle, row_bytes, cycles", [("none", 64, 16), ("64B", 64, 4), ("none", 32, 8), ("32B", 32, 4)])
def test_cycles_of_narrow_rows(capsys, swizzle, row_bytes, cycles):
    """Two or four rows share a row of the banks: without a swizzle every second (fourth) thread meets another."""
    _, (found,) = rows(capsys, *SHOW, "--shape", "32", str(row_bytes), "--box", "32", str(row_bytes), "--swizzle", swizzle, "--access",
                       "column")
    assert found["swizzled_cycles"] == cycles


def test_a_word_is_given_to_all_threads_that_want_it():
    assert gather_cycles([0, 4, 8, 0], 4) == 1 and gather_cycles([0, 128, 0, 128], 4) == 2 and gather_cycles([0, 128], 1) == 2
    tensor = TensorMap.build((8, 128), np.uint8, box=(8, 128))
    found = access(tensor_image(tensor, (0, 0), shared_bytes=1024), "gather", threads=8, slots=8, rows=[3, 3, 3, 7])
    assert found.cycles == 2 and found.banks.tolist() == [4, 0, 0, 0, 0, 0, 0, 0]


CASES = {
    "tile": [*SHOW, "--shape", "5", "6", "32", "--dtype", "int16", "--box", "2,3,16", "--coords", "-1,4,16", "--swizzle", "32B"],
    "strides": [*SHOW, "--shape", "9", "9", "64", "--box", "6", "5", "64", "--element-strides", "3", "2", "1", "--swizzle", "64B"],
    "im2col": [*SHOW, "--mode", "im2col", "--shape", "2", "5", "4", "32", "--dtype", "uint32", "--lower-corner", "-1", "-1",
               "--upper-corner", "-1", "-1", "--pixels-per-column", "19", "--channels-per-pixel", "16", "--offsets", "2", "1",
               "--swizzle", "128B", "--smem-address", "0x180"],
    "interleave": [*SHOW, "--shape", "2", "4", "5", "3", "--dtype", "float16", "--box", "1", "2", "3", "2", "--coords", "1", "2", "3", "1",
                   "--interleave", "32B", "--swizzle", "32B"],
}


@pytest.mark.parametrize("case", CASES)
def test_elements_lie_where_the_golden_model_puts_them(capsys, case):
    elements, _ = rows(capsys, *CASES[case])
    options = dict(zip(CASES[case][2:-1], CASES[case][3:]))
    slices = case == "interleave"
    unit = {"int16": 2, "uint32": 4, "float16": 32}.get(options.get("--dtype"), 1)
    shape = {"tile": (5, 6, 32), "strides": (9, 9, 64), "im2col": (2, 5, 4, 32), "interleave": (2, 4, 5, 3)}[case]
    memory = np.random.default_rng(1).integers(1, 256, int(np.prod(shape)) * unit, np.uint8)
    values = memory.reshape(2, 3, 4, 5, 32).transpose(0, 2, 3, 1, 4) if slices else memory.reshape(*shape, unit)
    build = {
        "tile": dict(dtype=np.int16, box=(2, 3, 16), swizzle="32B"),
        "strides": dict(dtype=np.uint8, box=(6, 5, 64), element_strides=(3, 2, 1), swizzle="64B"),
        "im2col": dict(dtype=np.uint32, mode="im2col", lower_corner=(-1, -1), upper_corner=(-1, -1), pixels_per_column=19,
                       channels_per_pixel=16, swizzle="128B"),
        "interleave": dict(dtype=np.float16, box=(1, 2, 3, 2), interleave="32B", swizzle="32B"),
    }[case]
    start = {"tile": (16, 4, -1), "strides": (0, 0, 0), "im2col": (0, -1, -1, 0), "interleave": (1, 3, 2, 1)}[case]
    offsets = {"im2col": (1, 2)}.get(case, (0,) * (len(shape) - 2))
    shared, first = np.zeros(8192, np.uint8), 0x180 if case == "im2col" else 0
    nbytes = load_tensor(memory, shared, TensorMap.build(shape, **build).fields, start, first, offsets)
    assert nbytes == len(elements) * (16 if slices else unit)
    step = 16 if slices else unit
    if case == "im2col":        # rows of 64 bytes, each in a span of 128
        assert [row["address"] for row in elements] == [first + 2 * place - place % 64 for place in range(0, nbytes, step)]
    else:
        assert [row["address"] for row in elements] == list(range(first, first + nbytes, step))
    assert len({row["swizzled_address"] for row in elements}) == len(elements)
    for row in elements:
        width = 16 if slices else unit
        inside = all(0 <= place < size for place, size in zip(row["coordinates"], shape))
        assert row["inside"] == inside
        expected = values[tuple(row["coordinates"])][row["byte"]:row["byte"] + width] if inside else np.zeros(width, np.uint8)
        assert np.array_equal(shared[row["swizzled_address"]:row["swizzled_address"] + width], expected)
    assert {row["inside"] for row in elements} == ({True} if case == "strides" else {True, False})


def test_all_broken_rules_at_once_are_wrong_use(capsys):
    code, out, err = call(capsys, *SHOW, "--shape", "4", "0", "--box", "300", "3", "--fill", "nan", "--address", "8")
    assert code == 2 and not out and err.count("\n") == 1
    for name in ("FILL", "ADDRESS", "SIZE", "BOX", "BOX_ROW"):
        assert f"{name}: " in err
    assert "size of dimension 0 (axis 1) must be" in err and "box of dimension 1 (axis 0) must be" in err
    code, out, err = call(capsys, *SHOW, "--shape", "4", "64", "--box", "4", "64", "--coords", "0", "3", "--smem-address", "24")
    assert code == 2 and not out and "COORDINATE_ALIGNMENT: " in err and "SHARED_ADDRESS: " in err


@pytest.mark.parametrize("arguments, says", [
    (["--shape", "8", "128"], "box must be given in mode tile"),
    (["--shape", "8", "128", "--box", "8"], "box must have 2 values, one for each axis, not 1"),
    (["--shape", "8", "128", "--box", "8", "128", "--coords", "1"], "coords must have 2 values, one for each axis, not 1"),
    (["--shape", "8", "128", "--box", "8", "128", "--offsets", "1"], "offsets must not be given in mode tile"),
    (["--shape", "8", "128", "--box", "8", "128", "--access", "column", "--block", "8"], "block must be 0 to 7, not 8"),
    (["--shape", "8", "128", "--box", "8", "128", "--access", "gather"], "rows must be given with access gather"),
    (["--shape", "8", "128", "--box", "8", "128", "--access", "gather", "--rows", "8"], "rows must be 0 to 7, not 8"),
    (["--shape", "8", "b"], "invalid numbers value: 'b'"),
])
def test_wrong_use(capsys, arguments, says):
    code, out, err = call(capsys, *SHOW, *arguments)
    assert code == 2 and not out and err.count("\n") == 1 and says in err


def test_filled_cells_are_marked(capsys):
    arguments = [*SHOW, "--shape", "3", "56", "--box", "2", "64", "--coords", "2", "0"]
    code, out, _ = call(capsys, *arguments)
    assert code == 0 and "0x0000   0.0  0.1  0.2  0.3- 1.0~ 1.1~ 1.2~ 1.3~" in out and "72 of 128 elements outside" in out


def test_colours_on_a_terminal_only():
    image = tensor_image(TensorMap.build((8, 64), np.int8, box=(9, 64), swizzle="64B"), (0, 0), shared_bytes=1024)
    plain, coloured = draw(image), draw(image, colour=True)
    assert "\x1b" not in "".join(plain) and "\x1b[38;5;16;48;5;" in "".join(coloured)
    assert len(plain) == len(coloured) == 2 + 5 and len(draw(image, limit=2)) == 2 + 2 + 1


def test_pictures_stand_below_each_other_on_a_narrow_terminal():
    image = tensor_image(TensorMap.build((8, 64), np.int8, box=(8, 64), swizzle="64B"), (0, 0), shared_bytes=1024)
    beside, below = draw(image, columns=120), draw(image, columns=60)
    assert len(beside) == 2 + 4 and len(below) == 2 * (2 + 4) and max(map(len, below)) < 60
    assert [line.split()[1:] for line in beside[2:]] == [a.split()[1:] + b.split()[1:] for a, b in zip(below[2:6], below[8:])]


def test_svg(capsys, tmp_path):
    path = tmp_path / "box.svg"
    code, out, _ = call(capsys, *TILE_32_ROWS, "--swizzle", "128B", "--access", "column", "--svg", str(path))
    assert code == 0 and out.endswith(f"wrote {path}\n")
    name = "{http://www.w3.org/2000/svg}"
    root = ElementTree.parse(path).getroot()
    cells = [item for item in root.iter(f"{name}rect") if item.get("stroke")]
    assert len(cells) == 2 * 32 * 8 and sum(cell.get("stroke-width") == "3" for cell in cells) == 2 * 32
    texts = [item.text for item in root.iter(f"{name}text")]
    assert "with swizzle 128B" in texts and any("32 cycles" in text for text in texts) and any(" 4 cycles" in text for text in texts)


def test_examples_of_the_help_run(capsys):
    text = call(capsys, *SHOW, "--help")[1].split("examples:\n")[1].split("\n\n")[0].replace("\n        --", " --")
    commands = [line.split()[1:] for line in text.splitlines() if line.startswith("  heddle ")]
    assert len(commands) == 3
    for command in commands:
        assert call(capsys, *command)[0] == 0
