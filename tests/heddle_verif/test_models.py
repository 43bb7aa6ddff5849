"""The models that benches use in place of shared and global memory, and packing of payloads."""

import pytest
from amaranth.hdl import signed
from amaranth.lib import data, enum
from heddle.config import load_config
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.agents.payload import pack, unpack
from heddle_verif.bench.models import Wires
from heddle_verif.checkers.scoreboard import Scoreboard


@pytest.mark.smoke
@pytest.mark.parametrize("config", ["tiny"])
def test_memory_models(config, simulator, seed):
    cfg = load_config(config)
    run_bench(Wires(cfg), bench="heddle_verif.bench.models", cfg=cfg, simulator=simulator, seed=seed)


class Color(enum.Enum, shape=2):
    RED = 0
    BLUE = 2


LAYOUT = data.StructLayout({"color": Color, "level": signed(5), "list": data.ArrayLayout(signed(3), 2), "flag": 1})


def test_pack_agrees_with_amaranth():
    for level in (-16, -1, 0, 15):
        value = {"color": Color.BLUE, "level": level, "list": [-4, 3], "flag": 1}
        assert pack(LAYOUT, value) == LAYOUT.const(value).as_bits()
        assert unpack(LAYOUT, pack(LAYOUT, value)) == value
    assert unpack(LAYOUT, 1)["color"] == 1      # a number without a member stays a number


@pytest.mark.parametrize("value, error", [({"level": 16}, ValueError), ({"list": [4]}, ValueError), ({"depth": 1}, KeyError),
                                          ({"flag": -1}, ValueError)])
def test_pack_refuses(value, error):
    with pytest.raises(error):
        pack(LAYOUT, value)


def test_scoreboard_fails():
    board = Scoreboard("board")
    with pytest.raises(AssertionError, match="^board: at least 1 items must be compared, not 0"):
        board.finish()
    board.expect(1, 2)
    board.observe(1)
    with pytest.raises(AssertionError, match="^board: 1 items missing, first 2"):
        board.finish()
    with pytest.raises(AssertionError, match="^board: item 1 must be 2, not 3"):
        board.observe(3)
    board.observe(4)
    with pytest.raises(AssertionError, match="^board: 1 items surplus, first 4"):
        board.finish()
    tagged = Scoreboard("board", key=lambda item: item[0])
    tagged.expect((0, "a"), (1, "b"))
    tagged.observe((1, "b"), (0, "a"))
    tagged.finish(2)
    with pytest.raises(AssertionError, match=r"^board: surplus item 5"):
        Scoreboard("board", strict=True).observe(5)
