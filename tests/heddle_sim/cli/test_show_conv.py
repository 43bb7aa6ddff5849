"""``heddle show conv``: what the threads read, and how a layer is done."""

import json
from xml.etree import ElementTree

import pytest
from heddle_sim.cli import main

FIGURE_13 = "--size 4,4 --channels 1 --outputs 1 --filter 3,3 --layout NHWC"
LAYER = "--size 28,28 --channels 64 --outputs 64 --filter 3,3 --pads 1 --layout NHWC --config base --plan"


def show(options, capsys):
    assert main(["show", "conv", *options.split()]) == 0
    return capsys.readouterr().out


def test_figure_13(capsys):
    out = show(f"{FIGURE_13} --threads 4", capsys)
    assert out.startswith("4x4 with 1 channel, 1 filter of 3x3, NHWC: result 2x2\nbases: 0 1 4 5\noffsets: 0 1 2 4 5 6 8 9 10\n")
    assert out.endswith("thread 3: base 5\n  .  .  .  .\n  .  0  1  2\n  .  3  4  5\n  .  6  7  8\n")


def test_padding_and_one_axis(capsys):
    assert "thread 0: base -5\n  0p 1p 2p\n  3p 4  5  .  .\n" in show("--size 4,4 --channels 2 --outputs 1 --filter 3,3 --pads 1", capsys)
    assert "thread 1: base 2\n  .  .  0  .  1  .\n" in show(
        "--size 6 --channels 1 --outputs 1 --filter 2 --strides 2 --dilations 2 --layout NWC", capsys)


def test_planes_stand_side_by_side(capsys, tmp_path):
    options = "--size 3,2,2 --channels 1 --outputs 1 --filter 2,2,2 --layout NDHWC"
    out = show(f"{options} --svg {tmp_path / 'a.svg'}", capsys)
    assert "thread 0: base 0\n  0  1  |  4  5  |  .  .\n  2  3  |  6  7  |  .  .\n" in out
    assert "thread 1: base 4\n  .  .  |  0  1  |  4  5\n" in out
    items = [item.get("width") for item in ElementTree.parse(tmp_path / "a.svg").iter() if item.tag.endswith("rect")]
    assert items.count("26") == 2 * 12


def test_line_fetches(capsys):
    """Of the chosen order, and of the natural one."""
    options = "--size 14,14 --channels 64 --outputs 8 --filter 3,3 --pads 1 --layout NHWC --config base"
    assert "line fetches of 32 threads: 32, in natural order 2048" in show(options, capsys)
    row, = json.loads(show(f"{options} --json", capsys))["rows"]
    assert (row["line_fetches"], row["line_fetches_natural"]) == (32, 2048)


def test_drawing(capsys, tmp_path):
    show(f"{FIGURE_13} --svg {tmp_path / 'a.svg'}", capsys)
    texts = [item.text for item in ElementTree.parse(tmp_path / "a.svg").iter() if item.tag.endswith("text")]
    assert "offsets: 0 1 2 4 5 6 8 9 10" in texts and texts.count("8") == 2


def test_plan(capsys):
    rows = json.loads(show(f"{LAYER} --json", capsys))["rows"]
    assert [row["method"] for row in rows] == ["compiled", "depthwise", "gather", "im2col"] and sum(row["auto"] for row in rows) == 1
    assert rows[0]["lanes_of_a_filter"] == 1 and all(row["cycles"] > 112_896 for row in rows if not row["why_not"])
    out = show(f"{LAYER} --group 64 --requantise", capsys)
    assert "lanes of a filter: 4" in out and 'gather: method must be "compiled" or "depthwise" or "im2col" with' in out
    assert "depthwise: " in out and "strips: 2 of " in out and "the sums that leave decide" in out


def test_plan_of_a_small_image(capsys):
    """Cycles are those of the tiles that are taken, 16 words for each of 20 pixels."""
    out = show("--size 6,6 --channels 128 --outputs 128 --filter 1,1 --layout NHWC --requantise --plan", capsys)
    assert "2 tiles of 20 pixels each" in out and "cycles of a tile: 320 of mm, " in out


@pytest.mark.parametrize(("options", "says"), [
    ("--size 14,14 --channels 128 --outputs 64 --filter 3,3 --pads 1",
     "entries: 1,152 of a byte each, 256 of which are loaded for each tile"),
    ("--size 9,9 --channels 512 --outputs 40 --filter 5,5 --layout NHWC", "weights: 1600 words a lane, loaded for each tile, 64 at a time"),
    ("--size 20,350 --channels 64 --outputs 64 --filter 3,3 --pads 1 --layout NHWC", "22 tiles of 32 pixels each, in one place"),
])
def test_plan_of_what_memories_do_not_hold(options, says, capsys):
    assert says in show(f"{options} --requantise --plan", capsys)


@pytest.mark.parametrize(("options", "message"), [
    ("--size 4,4,4,4 --channels 1 --outputs 1 --filter 1,1,1,1", "--filter must have as many numbers as --size, one to three"),
    (f"{FIGURE_13} --threads 5", "--threads must be from 1 to the 4 pixels of the result, not 5"),
    (f"{LAYER} --svg a.svg", "--svg must not be given with --plan"),
    ("--size 4,4 --channels 1 --outputs 1 --filter 3", "--filter must have as many numbers as --size"),
    ("--size 9,9 --channels 7 --outputs 1 --filter 9,9 --pads 8 --config small --plan", "a method must be able to do the layer"),
])
def test_refused(options, message, capsys):
    assert main(["show", "conv", *options.split()]) == 2
    assert message in capsys.readouterr().err
