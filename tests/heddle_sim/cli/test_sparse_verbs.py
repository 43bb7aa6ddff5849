"""Verbs about sparse products: sampled products, how rows are dealt to cores, and the drawing of it."""

import pytest
from heddle import load_config
from heddle_sim.cli import main
from heddle_sim.cli.bench_spmm import break_even
from heddle_sim.draw.break_even_svg import break_even_svg
from heddle_sim.kernels.planner import plan
from heddle_sim.kernels.scheduled_product import ScheduledProductKernel
from heddle_sim.kernels.sparse_product import SparseProductProblem
from heddle_sim.sparse.generated import generated_suite, power_law_matrix
from heddle_verif.command_line import answer

SAMPLED = "bench sddmm --quick --suite generated --k 70 --pattern --plain --config tiny --simulator golden --memory-mib 1"


def test_sampled_products_are_checked(capsys):
    found = answer(capsys, *SAMPLED.split())
    assert all(row["checked"] and row["pattern"] and not row["transpose"] and row["k"] == 70 for row in found["rows"])
    assert all(0 < row["bound"] <= 1 for row in found["rows"])


@pytest.mark.parametrize("side", ["left", "right", "both"])
def test_sides(side, capsys):
    """Each side has a bound; of two sparse operands those multiply-accumulates are useful in which both have an element."""
    command = "bench spmm --quick --suite generated --n 20 --config tiny --simulator golden --memory-mib 1 --side"
    for (name, matrix), row in zip(generated_suite().items(), answer(capsys, *command.split(), side)["rows"]):
        assert row["matrix"] == name and row["checked"] and row["side"] == side and 0 < row["bound"] <= 1
        assert row["macs"] == matrix.elements * 20 and row["row_overhead"] is None
        assert (row["m"], row["k"], row["n"]) == ((20, *matrix.shape) if side == "right" else (*matrix.shape, 20))
        assert row["useful_macs"] < row["macs"] if side == "both" else row["useful_macs"] == row["macs"]


BREAK_EVEN = "bench spmm --quick --n 1 --config tiny --memory-mib 1"


def test_break_even_suite(capsys):
    """Sparse products, then the dense one of the same shape; without a clock nothing says where they are as fast."""
    *sparse, dense = answer(capsys, *BREAK_EVEN.split(), "--suite", "break-even", "--simulator", "golden")["rows"]
    assert [row["sparsity"] for row in sparse] == pytest.approx([0, 0.02, 0.05, 0.1], abs=1e-4) and dense["matrix"] == "dense product"
    for row in (*sparse, dense):
        assert (row["m"], row["k"], row["n"], row["checked"], row["cycles"]) == (512, 512, 1, True, None)
    assert dense["break_even"] is None


@pytest.mark.nightly
def test_break_even_is_drawn(capsys, tmp_path):
    path = tmp_path / "break_even.svg"
    *sparse, dense = answer(capsys, *BREAK_EVEN.split(), "--plot", str(path))["rows"]
    assert all(row["speedup"] == dense["cycles"] / row["cycles"] for row in sparse)
    assert dense["break_even"] == break_even([(row["sparsity"], row["cycles"]) for row in sparse], dense["cycles"])
    assert f"dense product: {dense['cycles']:,}" in path.read_text()


def test_break_even():
    """On the line between two products; where the first is as fast its share; none that is."""
    points = [(0.5, 80), (0.0, 120), (0.25, 100)]
    assert break_even(points, 110) == pytest.approx(0.125) and break_even(points, 100) == 0.25
    assert break_even(points, 130) == 0 and break_even(points, 70) is None
    for share in (0.25, None):
        picture = break_even_svg(points, 100, share, 0.71)
        assert picture.count("<circle") == len(points) and "published 71 %" in picture
        assert ("break-even 25.0 %" in picture) is (share is not None)


@pytest.mark.nightly
def test_row_overhead(capsys):
    """Cycles beside steps and sums of a resident product of one panel; those of steps of one non-zero are no overhead."""
    command = "bench spmm --quick --suite generated --n 32 --config tiny --memory-mib 1 --resident"
    rows = answer(capsys, *command.split())["rows"]
    assert [row["row_overhead"] is None for row in rows] == [row["k"] > 64 for row in rows]
    for row in rows:
        if row["k"] <= 64:
            assert row["cycles"] - row["steps"] >= row["row_overhead"] * row["m"] > 0


def test_loads(capsys):
    """Alignment and sharing each save loads; the last row has those of all."""
    *rows, of_all = answer(capsys, "bench", "loads")["rows"]
    assert len(rows) > 12 and of_all["matrix"] == f"all {len(rows)}"
    for row in [*rows, of_all]:
        assert row["both"] <= row["aligned"] <= row["plain"] and row["both"] <= row["packed"]
        assert row["gain"] == row["plain"] / row["both"] >= 1
    assert of_all["plain"] == sum(row["plain"] for row in rows)


def test_balance(capsys):
    """Sorted rows that cores take when they are done are dealt most evenly; one core is always even."""
    rows = answer(capsys, "bench", "balance", "--config", "base")["rows"]
    assert len(rows) > 12
    for row in rows:
        assert row["slowest_cycles"] / row["mean_cycles"] == pytest.approx(row["dynamic_sorted"], abs=1e-4)
        assert all(max(ends) / row["mean_cycles"] == pytest.approx(row[order], abs=1e-4) for order, ends in row["core_cycles"].items())
        assert 1 <= row["dynamic_sorted"] <= row["natural"] and row["dynamic_sorted"] <= row["dynamic"] + 1e-4
    assert max(row["natural"] for row in rows) > 1.1
    assert all(row[order] == 1 for row in answer(capsys, "bench", "balance", "--config", "base", "--cores", "1")["rows"]
               for order in ("natural", "sorted", "snake", "grouped", "dynamic"))


@pytest.mark.parametrize("options", ["", "--sddmm", "--static --order natural"])
def test_drawing(options, capsys, tmp_path):
    """Each block is on one core, in a row of its own of the answer; text and drawing have all cores."""
    command = ["show", "sparse", "--rows", "200", "--columns", "100", *options.split()]
    rows = answer(capsys, *command)["rows"]
    assert sorted(row["block"] for row in rows) == list(range(len(rows))) and {row["core"] for row in rows} == {0, 1, 2, 3}
    assert sum(row["rows"] for row in rows) == 200
    for row in rows:
        assert row["start"] < row["end"]
    assert main([*command, "--svg", str(tmp_path / "picture.svg")]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("core")] == ["0", "1", "2", "3"]
    picture = (tmp_path / "picture.svg").read_text()
    assert picture.count("<title>") == len(rows) and "core 3" in picture


@pytest.mark.parametrize("options, dynamic", [("", True), ("--static", False)])
def test_drawn_blocks_are_those_of_the_kernel(options, dynamic, capsys):
    """Of tiles that the cores take too."""
    rows = answer(capsys, "show", "sparse", *options.split())["rows"]
    problem = SparseProductProblem(power_law_matrix(512, 512, 0.9, 0), 128, order="sorted", dynamic=dynamic)
    kernel = plan(load_config("quad"), problem)
    assert isinstance(kernel, ScheduledProductKernel) is dynamic
    assert sorted((row["first_row"], row["rows"]) for row in rows) == sorted(kernel.expected(kernel.panels[0])[0])


@pytest.mark.parametrize("command, says", [
    ("bench spmm --suite dl --plot picture.svg", "--suite must be break-even with --plot, not dl"),
    ("bench spmm --simulator golden --plot picture.svg", "--simulator must be verilator with --plot, which shows cycles, not golden"),
    ("show sparse --config small", "--config must be one with sparse for show sparse"),
    ("show sparse --sparsity 1", "--sparsity must be from 0 to below 1, not 1.0"),
    ("bench balance --cores 100000", "--cores must be at most 65536, not 100000"),
])
def test_refusals(command, says, capsys):
    assert main(command.split()) == 2
    assert says in capsys.readouterr().err
