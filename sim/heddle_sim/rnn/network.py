"""Networks with float inputs and outputs, and sequences for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError, UsageTypeError
from heddle.rnn.layouts import task_layout
from numpy.typing import ArrayLike

from ..arguments import check_flag, check_integer
from .checks import number_array
from .layers import add_layer
from .model import EngineModel
from .plan import choose_cats
from .quantise import QuantisedLayer, Samples, quantise_layer, quantise_vector
from .step import Step, Vector

if TYPE_CHECKING:
    from .reference import FloatLayer

__all__ = ["MAX_START", "Network", "Sequence", "SequenceResult"]

MAX_START = 1 << task_layout["start"].width
_MOST_ELEMENTS = 1 << 16        # of the largest vector memory
_MOST_FRACTION = 32


def _check_layer(layer: object) -> None:
    if not isinstance(layer, QuantisedLayer):
        raise UsageTypeError(f"layer must be of type QuantisedLayer, not {type(layer).__name__}")


class Network:
    """A step with named float inputs and outputs; what it is made of can be inspected.

    Layers are added with ``add``, inputs with ``add_input``; ``outputs`` names the vectors whose values in every step are wanted.

    Attributes
    ----------
    step : Step
    layers : dict of str to QuantisedLayer
    reverse : bool
        The last row of a sequence is its first step.
    cats : dict of str to int or int, optional
        Dot products of a lane, by layer; chosen by ``plan.choose_cats`` where None.
    skip_zeros : bool
        Elements that are zero take no time of the multipliers, if all of their column are: see docs/recurrent.md.
    threshold : float, optional
        Elements of vectors that differ by less than this from what was multiplied of them before count as that, and take no time of the
        multipliers. Zero changes no bit of any result. The configuration must have ``rnn_differences``.
    """

    def __init__(self, reverse: bool = False, cats: int | dict[str, int] | None = None, skip_zeros: bool = False,
                 threshold: float | None = None) -> None:
        if threshold is not None and not (isinstance(threshold, Real) and not isinstance(threshold, bool) and threshold >= 0):
            raise UsageError(f"threshold must be a number from 0 on, or None, not {threshold!r}")
        self.step, self.reverse, self.cats = Step(), check_flag("reverse", reverse), cats
        self.layers: dict[str, QuantisedLayer] = {}
        self.skip_zeros, self.threshold = check_flag("skip_zeros", skip_zeros), threshold
        self._models: dict[tuple[Config, bool], EngineModel] = {}

    @classmethod
    def of_layer(cls, layer: FloatLayer, data: Samples | None = None, *, reverse: bool = False, cats: int | dict[str, int] | None = None,
                 skip_zeros: bool = False, threshold: float | None = None, fractions: dict[str, int] | None = None,
                 weight_scales: dict[str, float] | None = None) -> Self:
        """Of one ``FloatLayer``, quantised for ``data`` (``quantise_layer``, whose options it takes): input "x", result "y.h"."""
        quantised = quantise_layer(layer, data, fractions=fractions, weight_scales=weight_scales)
        return cls.of_quantised(quantised, reverse=reverse, cats=cats, skip_zeros=skip_zeros, threshold=threshold)

    @classmethod
    def of_quantised(cls, layer: QuantisedLayer, *, reverse: bool = False, cats: int | dict[str, int] | None = None,
                     skip_zeros: bool = False, threshold: float | None = None) -> Self:
        """Of one ``QuantisedLayer`` with one input."""
        _check_layer(layer)
        network = cls(reverse, cats, skip_zeros, threshold)
        network.add_input("x", layer.widths[0], layer.fractions["x0"], layer.limits["x0"])
        network.step.outputs.append(network.add("y", layer, ["x"]))
        return network

    def add_input(self, name: str, size: int, fraction: int, limit: int = 32767) -> None:
        """A float input of ``size`` elements, quantised with ``fraction`` bits and kept within ``limit``."""
        if not isinstance(name, str):
            raise UsageTypeError(f"name must be text, not {name!r}")
        self.step.add_vector(name, Vector(check_integer("size", size, 1, _MOST_ELEMENTS), "input",
                                          check_integer("fraction", fraction, -_MOST_FRACTION, _MOST_FRACTION),
                                          check_integer("limit", limit, 1, 1 << 15)))

    def add(self, name: str, layer: QuantisedLayer, inputs: list[str], order: list[str] | tuple[str, ...] | None = None) -> str:
        """A ``QuantisedLayer``; see ``add_layer``. Returns the name of its result."""
        _check_layer(layer)
        self.layers[name] = layer
        return add_layer(self.step, name, layer, inputs, order)

    def model(self, cfg: Config, plain: bool = False) -> EngineModel:
        """``EngineModel`` for a configuration; ``plain``: with one dot product of a lane, unless ``cats`` says otherwise."""
        if self.threshold is not None and not cfg.rnn_differences:
            raise UsageError(f"threshold must be None with rnn_differences = False (configuration {cfg.name}), not {self.threshold!r}")
        if (cfg, plain) not in self._models:
            cats = self.cats
            if cats is None:
                cats = 1 if plain else choose_cats(cfg, self.step)
            self._models[cfg, plain] = EngineModel(cfg, self.step, cats, self.reverse, self.skip_zeros, self._held())
        return self._models[cfg, plain]

    def _held(self) -> dict[str, int] | None:
        """The largest differences below the threshold, by vector."""
        if self.threshold is None:
            return None
        return {name: int(min(max(np.ceil(self.threshold * 2.0 ** vector.fraction) - 1, 0), (1 << 16) - 1))
                for name, vector in self.step.vectors.items()}

    def quantised(self, name: str, values: ArrayLike) -> np.ndarray:
        """Elements of a vector."""
        vector = self.step.vectors[name]
        return quantise_vector(values, vector.fraction, vector.limit)


@dataclass(frozen=True)
class Sequence:
    """Inputs and states of one run through a network.

    Attributes
    ----------
    network : Network
    inputs : dict of str to float [steps, size], or an array where the network has one input
        At least one step, the same number for all.
    states : dict of str to float [size]
        Before the first step; zero where absent.
    start : int
        Cycles after the start of the run before which the sequence does not begin, below ``MAX_START``.

    Raises ``ValueError`` or ``TypeError``, which names the parameter.
    """

    network: Network
    inputs: ArrayLike | dict[str, ArrayLike]
    states: dict[str, ArrayLike] = field(default_factory=dict)
    start: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.network, Network):
            raise UsageTypeError(f"network must be of type Network, not {type(self.network).__name__}")
        if not isinstance(self.start, Integral) or isinstance(self.start, bool) or not 0 <= self.start < MAX_START:
            raise UsageError(f"start must be an integer from 0 to {MAX_START - 1}, not {self.start!r}")
        step = self.network.step
        names = [name for name, vector in step.vectors.items() if vector.kind == "input"]
        given = self.inputs
        if not isinstance(given, dict):
            if len(names) != 1:
                raise UsageError(f"inputs must be a dictionary of {', '.join(names)}, not {type(given).__name__}")
            given = {names[0]: given}
        if set(given) != set(names) or not names:
            raise UsageError(f"inputs must be {', '.join(names) or 'those of a network that has some'}, not "
                             f"{', '.join(map(str, given)) or 'none'}")
        rows = {name: number_array(f"input {name}", values, (None, step.vectors[name].size), f"(steps, {step.vectors[name].size})")
                for name, values in given.items()}
        if len({len(values) for values in rows.values()}) > 1:
            raise UsageError(f"inputs must have one number of steps, not {sorted(len(values) for values in rows.values())}")
        object.__setattr__(self, "inputs", rows)
        object.__setattr__(self, "states", self._checked_states())

    def _checked_states(self) -> dict[str, np.ndarray]:
        vectors, known, states = self.network.step.vectors, self.network.step.states(), self.states
        if not isinstance(states, dict):
            raise UsageTypeError(f"states must be a dictionary, not {type(states).__name__}")
        for name in states:
            if name not in known:
                raise UsageError(f"states must be among {', '.join(known) or 'none'}, not {name!r}")
        return {name: number_array(f"states {name}", values, (vectors[name].size,)) for name, values in states.items()}

    def quantised(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Integer inputs and states."""
        network = self.network
        # As ``__post_init__`` left them.
        inputs, states = cast(dict[str, np.ndarray], self.inputs), cast(dict[str, np.ndarray], self.states)
        for name, values in states.items():
            largest, range_ = np.abs(values).max(initial=0.0), 2.0 ** (15 - network.step.vectors[name].fraction)
            if largest > range_:
                raise UsageError(f"states {name} must have magnitudes up to {range_:g}, not {largest:g}")
        return ({name: network.quantised(name, rows) for name, rows in inputs.items()},
                {name: network.quantised(name, values) for name, values in states.items()})


@dataclass(frozen=True)
class SequenceResult:
    """``outputs``: of each output float32 [steps, size], rows as the inputs; ``states``: float32 [size] after the last step."""

    outputs: dict[str, np.ndarray]
    states: dict[str, np.ndarray]
