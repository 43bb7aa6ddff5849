"""Methods of a convolution: what each is expected to take, and which one "auto" stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from heddle.config import Config
from heddle.errors import UsageError

from ..compiled.hardware import within_masks
from .compiled_groups import expected_cycles, merged_groups, runs_of
from .compiled_plan import CompiledConvolutionProblem
from .convolution import ConvolutionKernel
from .depthwise import DepthwiseKernel, DepthwiseProblem
from .depthwise_plan import filled_channels
from .gathered_convolution import GatheredConvolutionKernel, GatheredConvolutionProblem
from .parts.convolution_shape import ConvolutionShape
from .parts.fitting import Unfit
from .problem import ConvolutionProblem

__all__ = ["Expectation", "expectations", "fastest_method", "no_output_stage"]


class Expectation(NamedTuple):
    """What a method is expected to take of a convolution: ``cycles`` over all ``runs``, by its cycle model, and the problem of its first
    run. ``why_not``: why it cannot do it; then there are no cycles and no problem."""

    cycles: int = 0
    runs: int = 0
    problem: CompiledConvolutionProblem | GatheredConvolutionProblem | DepthwiseProblem | ConvolutionProblem | None = None
    why_not: str = ""


def expectations(cfg: Config, layer: CompiledConvolutionProblem, alike: bool = False) -> dict[str, Expectation]:
    """Of each method by name, for a whole convolution: all images and groups of the geometry of ``layer``; ``alike``: all weights of a
    filter are equal."""
    found, depthwise = {}, partial(_depthwise, alike=alike)
    for name, method in (("compiled", _compiled), ("depthwise", depthwise), ("gather", _gathered), ("im2col", _im2col)):
        try:
            found[name] = method(cfg, layer)
        except UsageError as error:
            found[name] = Expectation(why_not=str(error))
        except Unfit as error:
            found[name] = Expectation(why_not=f"{error} is too small")
    return found


def fastest_method(found: Mapping[str, Expectation]) -> str | None:
    """Name of the method with the fewest expected cycles, the first of equals; None where no method can do it."""
    possible = [name for name, expectation in found.items() if expectation.problem is not None]
    return min(possible, key=lambda name: found[name].cycles, default=None)


def _compiled(cfg: Config, layer: CompiledConvolutionProblem) -> Expectation:
    problem = merged_groups(cfg, replace(layer, geometry=within_masks(layer.geometry)))
    return Expectation(expected_cycles(cfg, problem), problem.geometry.images * len(runs_of(problem)), problem)


def no_output_stage(method: str) -> str:
    """Why another method cannot do a convolution with an output stage."""
    return f"method must be \"compiled\" or \"depthwise\" with requantise, or where w minus w_zero_point has nine bits, not \"{method}\""


def _check_output(layer: CompiledConvolutionProblem, method: str) -> None:
    if layer.requantise is not None or layer.addends > 1:
        raise UsageError(no_output_stage(method))
    if layer.bias or layer.zero_point:
        raise UsageError(f"method \"{method}\" must be asked for by name with bias or x_zero_point, which the host adds to its sums")


def _depthwise(cfg: Config, layer: CompiledConvolutionProblem, alike: bool) -> Expectation:
    if layer.addends > 1:
        raise UsageError("w must have 8 bits without its zero point for method \"depthwise\"")
    images = layer.geometry.images
    shape = filled_channels(layer.geometry)
    problem = DepthwiseProblem(shape, layer.layout, layer.elements, layer.zero_point, layer.bias, alike, layer.requantise,
                               shape.channels - layer.geometry.channels)
    kernel = DepthwiseKernel.fitting(cfg, problem)
    return Expectation(images * kernel.expected_cycles, images * len(kernel.turns), problem)


def _gathered(cfg: Config, layer: CompiledConvolutionProblem) -> Expectation:
    _check_output(layer, "gather")
    problem = GatheredConvolutionProblem(within_masks(layer.geometry), layer.layout, layer.elements)
    images = layer.geometry.images
    return Expectation(images * GatheredConvolutionKernel.estimate(cfg, problem), images, problem)


def _im2col(cfg: Config, layer: CompiledConvolutionProblem) -> Expectation:
    _check_output(layer, "im2col")
    geometry = layer.geometry
    problem = ConvolutionProblem(ConvolutionShape.of_group(geometry), layer.elements)
    return Expectation(ConvolutionKernel.estimate(cfg, problem) * geometry.group, geometry.group, problem)
