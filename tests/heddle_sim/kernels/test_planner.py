"""The planner: families by kind of problem, estimates, and what a new family needs."""

import json
from pathlib import Path

import heddle_sim.cli
import pytest
from heddle import load_config
from heddle.config import ConfigError
from heddle_sim.compiled.layout import ImageLayout
from heddle_sim.kernels.compiled_convolution import CompiledConvolutionProblem
from heddle_sim.kernels.families import FAMILIES
from heddle_sim.kernels.kernel import Kernel
from heddle_sim.kernels.parts.convolution_shape import ConvolutionShape
from heddle_sim.kernels.parts.fitting import Unfit
from heddle_sim.kernels.parts.launch import Launch
from heddle_sim.kernels.parts.text import KernelText
from heddle_sim.kernels.planner import candidates, plan
from heddle_sim.kernels.problem import ConvolutionProblem, Elements, Layout, MatmulProblem, Operands, Schedule
from heddle_sim.kernels.resident import ResidentKernel
from heddle_sim.kernels.split import SplitKernel
from heddle_sim.kernels.streaming import StreamingKernel
from heddle_sim.kernels.tiled import TiledKernel

TINY = load_config("tiny")
FIGURES = Path(heddle_sim.cli.__file__).parent / "figures.json"


@pytest.mark.parametrize("shape, layout, family", [
    ((8, 64, 64), Layout(), StreamingKernel),
    ((100, 64, 64), Layout(), TiledKernel),
    ((8, 64, 64), Layout("kn"), TiledKernel),
    ((8, 16, 64), Layout(resident=True), ResidentKernel),
])
def test_the_first_family_that_fits_takes_a_product(shape, layout, family):
    problem = MatmulProblem(*shape, layout=layout)
    kernel = plan(TINY, problem)
    assert type(kernel) is family and None not in vars(kernel.problem.schedule).values()
    assert any(launch.counted and launch.macs == problem.macs for launch in kernel.launches(Operands()))


def test_a_product_is_split_where_its_last_rows_would_take_a_block():
    cfg = load_config("base")
    kernel = plan(cfg, MatmulProblem(130, 256, 256))
    assert type(kernel) is SplitKernel and [part.problem.m for part in kernel.kernels] == [128, 2]
    assert sum(launch.macs for launch in kernel.launches(Operands())) == 130 * 256 * 256
    for problem in (MatmulProblem(127, 256, 256), MatmulProblem(128, 256, 256), MatmulProblem(130, 256, 256, layout=Layout("kn"))):
        assert type(plan(cfg, problem)) is TiledKernel
    assert type(plan(load_config("quad"), MatmulProblem(130, 256, 256))) is TiledKernel


@pytest.mark.parametrize("layout", [Layout(), Layout("kn"), Layout(resident=True)])
def test_variants_are_all_choices_that_are_left_open(layout):
    problem = MatmulProblem(8, 8, 8, layout=layout)
    orders = 1 if layout.resident else 2
    assert len({(variant.schedule.ka, variant.schedule.kb, variant.schedule.order) for variant in problem.variants()}) == 16 * orders
    assert problem.variants()[0].schedule == Schedule(1, 1, "k-outer")
    asked = MatmulProblem(8, 8, 8, layout=layout, schedule=Schedule(2, 3, "column-outer"))
    assert asked.variants() == [asked]


def test_signs_are_modifiers_of_mm():
    assert Elements(2, True, False).signs == ".sa.ub"


class Halt(Kernel):
    """Fits products of one element."""

    @classmethod
    def fits(cls, cfg, problem):
        return problem.macs == 1

    def write(self):
        return [KernelText.of(["halt"])]

    def launches(self, operands=None):
        return [Launch(self.programs[0])]


def test_a_new_family_is_a_line_ahead_of_those_that_it_is_better_than(monkeypatch):
    monkeypatch.setitem(FAMILIES, MatmulProblem, [Halt, *FAMILIES[MatmulProblem]])
    assert type(plan(TINY, MatmulProblem(1, 1, 1))) is Halt
    assert type(plan(TINY, MatmulProblem(1, 1, 2))) is StreamingKernel


class Long(Halt):
    """Its programs fit no instruction memory."""

    def write(self):
        raise Unfit("instruction_words")


def test_a_program_that_is_too_long_is_named(monkeypatch):
    monkeypatch.setitem(FAMILIES, MatmulProblem, [Long])
    with pytest.raises(ConfigError, match="^instruction_words must be more than 4096 .4096 is the most there is. for matmul with "):
        plan(TINY, MatmulProblem(1, 1, 1))


def test_estimates_of_convolutions_are_near_the_figures():
    """The stored figures of ``base``; layers of some hundred steps take as long as their start."""
    rows = [(figure["where"], figure["expected"]) for row in json.loads(FIGURES.read_text()) if row["command"] == "bench conv"
            for figure in row["figures"] if figure["field"] == "cycles" and figure["expected"] > 10_000]
    assert len(rows) >= 16
    for where, cycles in rows:
        (*size, channels), (outputs, *sizes) = ([int(number) for number in where[name].split("x")] for name in ("image", "filters"))
        pads = ((where["pad"],) * 2,) * 2
        shape = ConvolutionShape(1, tuple(size), channels, outputs, tuple(sizes), pads, (where["stride"],) * 2, (1, 1))
        compiled = CompiledConvolutionProblem(shape, ImageLayout("NHWC"))
        choice, = candidates(load_config("base"), compiled if where["method"] == "compiled" else ConvolutionProblem(shape))
        most = 1.1 if where["method"] == "compiled" else 1.2
        assert 0.9 * cycles < choice.cycles < most * cycles, (where, choice.cycles)
