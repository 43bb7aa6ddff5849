"""From float weights to 8-bit weights and 16-bit vectors [S3.5].

A sum of a gate is an integer in units of ``scale``. All of its products have that unit: weights of vector v are in units of
scale · 2^fraction(v), so the widest range of any of them decides the scale of a gate. Fractions of the vectors are chosen together, so
that the error of all sums, of rounding weights and elements, is expected to be least. Weights are then rounded so that their errors cancel
in the sums of the sequences that are given, where these are long enough to tell.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from heddle.errors import UsageError, UsageTypeError
from heddle.rnn.layouts import CELL_FRACTION, SUM_FRACTION, Function
from numpy.typing import ArrayLike

from .checks import number_array
from .reference import FloatLayer, run_float

__all__ = ["FUNCTIONS", "SAMPLE_DAMPING", "QuantisedGate", "QuantisedLayer", "quantise_layer", "quantise_vector"]

FUNCTIONS = {"Sigmoid": Function.SIGMOID, "Tanh": Function.TANH, "Relu": Function.RELU, "Affine": Function.LINEAR}
BOUNDED = (Function.SIGMOID, Function.TANH)
FRACTIONS = range(15, -9, -1)       # tried for the vectors
PEEPHOLE_FRACTION = 12
GATE_FRACTION = 16                  # of activations of gates
HEADROOM = 1                        # bits of a linear sum below those of its result
MAX_BIAS = 1 << 26                  # in units of a sum, so that few constants make it
_SUM_LIMIT = 1 << 31
MOST_ELEMENTS = 1024                # of a sum whose weights are rounded for vectors: the time grows with the third power
OWN_DAMPING = 0.001                 # of the rounding for the sequences that are run themselves
SAMPLE_DAMPING = 0.02               # for samples, which stand for others

Samples = Iterable[tuple[np.ndarray, np.ndarray | None, np.ndarray | None]]


@dataclass(frozen=True)
class QuantisedGate:
    """Integers of one gate.

    Attributes
    ----------
    weights : dict of str to int8 [size, elements]
        Of each vector that the gate multiplies.
    bias : int32 [size]
        In units of the sum.
    scale : float
        Value of a unit of the sum.
    fraction : int
        Fraction bits of the de-quantised sum.
    shift, multiplier : int
        sum · multiplier / 2^(16 + shift) is that: see ``operation_layout``.
    """

    weights: dict[str, np.ndarray]
    bias: np.ndarray
    scale: float
    fraction: int
    shift: int
    multiplier: int


@dataclass(frozen=True)
class QuantisedLayer:
    """A layer in integers.

    Attributes
    ----------
    kind : str
        "lstm", "gru", "rnn" or "dense".
    size : int
    gates : dict of str to QuantisedGate
        i, o, f, c of an LSTM; z, r, n of a GRU and with ``linear_before_reset`` k, the hidden part of n; i of the others.
    functions : tuple of Function
        As ``FloatLayer.activations``.
    fractions, limits : dict of str to int
        Fraction bits and largest magnitude of vectors "x0", "x1" … (inputs) and "h" (result). The cell state of an LSTM has
        ``CELL_FRACTION`` bits.
    peepholes : int16 [3, size] or None
    linear_before_reset : bool
    """

    kind: str
    size: int
    gates: dict[str, QuantisedGate]
    functions: tuple[Function, ...]
    fractions: dict[str, int]
    limits: dict[str, int]
    peepholes: np.ndarray | None = None
    linear_before_reset: bool = False
    cell_fraction: int = CELL_FRACTION
    widths: tuple[int, ...] = ()

    def scales(self) -> dict[str, dict[str, float]]:
        """For every gate the values of a unit of its weights, by vector."""
        return {name: {vector: gate.scale * 2.0 ** self.fractions[_base(vector)] for vector in gate.weights}
                for name, gate in self.gates.items()}


class _Seen(NamedTuple):
    """Vectors that weights are rounded for, and how little rounding trusts them: a part of the mean square of an element."""

    vectors: dict[str, np.ndarray]
    damping: float


@dataclass
class _Part:
    """A gate in float: weights by vector, bias, and what its de-quantised sum is like."""

    terms: dict[str, np.ndarray]
    bias: np.ndarray
    function: Function
    gate: bool = False              # its activation is a factor, with GATE_FRACTION bits
    result: bool = False            # its activation has the fraction of the result
    sizes: dict[str, int] = field(default_factory=dict)

    def fraction(self, result_fraction: int) -> int:
        if self.function in BOUNDED:
            return SUM_FRACTION
        if self.gate:
            return GATE_FRACTION
        return result_fraction + HEADROOM if self.result else SUM_FRACTION


def _base(vector: str) -> str:
    """r∘h has the fraction of h."""
    return "h" if vector == "rh" else vector


def _parts(layer: FloatLayer) -> dict[str, _Part]:
    functions = [FUNCTIONS[name] for name in layer.activations]
    inputs = np.split(layer.w, np.cumsum(layer.widths)[:-1], axis=2)

    def part(index: int, hidden: str | None, **kind: Any) -> _Part:
        terms = {f"x{number}": block[index] for number, block in enumerate(inputs)}
        bias = layer.wb[index].copy()
        if hidden is not None and layer.r is not None:
            terms[hidden] = layer.r[index]
            bias += layer.rb[index]
        return _Part(terms, bias, **kind)

    if layer.kind == "lstm":
        return {name: part(index, "h", function=functions[name == "c"], gate=name != "c") for index, name in enumerate("iofc")}
    if layer.kind == "gru":
        gates = {name: part(index, "h", function=functions[0], gate=True) for index, name in enumerate("zr")}
        if not layer.linear_before_reset:
            return gates | {"n": part(2, "rh", function=functions[1], result=True)}
        assert layer.r is not None      # only a dense layer has none
        kept = _Part({"h": layer.r[2]}, layer.rb[2].copy(), functions[1], result=True)
        return gates | {"n": part(2, None, function=functions[1], result=True), "k": kept}
    return {"i": part(0, "h" if layer.kind == "rnn" else None, function=functions[0], result=True)}


def _vectors(layer: FloatLayer, data: Samples) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Vectors of all steps of sequences of (x, h, c), by name, as they are multiplied; and all results, with those before the first steps.
    """
    rows, before, results = [], [], []
    for sample in data:
        if not isinstance(sample, tuple | list) or len(sample) != 3:
            raise UsageTypeError(f"data must be tuples (x, h, c), not {type(sample).__name__}")
        x = number_array("x of data", sample[0], (None, layer.w.shape[2]))
        h, c = (value if value is None else number_array(f"{name} of data", value, (layer.size,)) for name, value in zip("hc", sample[1:]))
        y, _, _ = run_float(layer, x, h, c)
        rows.append(x)
        first = np.zeros(layer.size) if h is None else h
        before += [first[None], y[:-1]] if len(y) else []
        results += [y] if h is None else [y, h[None]]
    vectors = {f"x{n}": block for n, block in enumerate(np.split(np.concatenate(rows), np.cumsum(layer.widths)[:-1], axis=1))}
    vectors["h"] = np.concatenate(before) if before else np.zeros((0, layer.size))
    return vectors, np.concatenate(results)


def _statistics(vectors: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Largest magnitude and mean square of each vector."""
    return {name: (np.abs(block).max(initial=0.0), float(np.mean(block * block)) if block.size else 0.0) for name, block in vectors.items()}


def _result_fractions(layer: FloatLayer) -> tuple[int, int]:
    """Fractions that the recipe can give the result."""
    last = FUNCTIONS[layer.activations[{"lstm": 2, "gru": 1}.get(layer.kind, 0)]]
    if last in BOUNDED:
        return 9, 15
    return (6, 13) if layer.kind == "lstm" else (-8, 14)


def _scale(part: _Part, fractions: dict[str, int], limits: dict[str, int]) -> float:
    """Value of a unit of the sum: the smallest with which weights fit 8 bits, the bias ``MAX_BIAS`` and the sum 32 bits."""
    scale = max((np.abs(block).max(initial=0.0) / 127 * 2.0 ** -fractions[_base(name)] for name, block in part.terms.items()), default=0.0)
    scale = max(scale, np.abs(part.bias).max(initial=0.0) / MAX_BIAS)
    if scale == 0.0:
        return 2.0 ** -20
    elements = sum(block.shape[1] * limits[_base(name)] for name, block in part.terms.items())
    largest = np.abs(part.bias) + sum(np.abs(block).sum(1) * limits[_base(name)] * 2.0 ** -fractions[_base(name)]
                                      for name, block in part.terms.items())
    return max(scale, largest.max() / max(_SUM_LIMIT - elements, 1 << 20))


def _error(parts: dict[str, _Part], fractions: dict[str, int], limits: dict[str, int], statistics: dict[str, tuple[float, float]]) -> float:
    """Expected square of the error of the sums, added over the gates."""
    total = 0.0
    for part in parts.values():
        scale = _scale(part, fractions, limits)
        for name, block in part.terms.items():
            unit = 2.0 ** -fractions[_base(name)]
            total += (scale / unit) ** 2 / 12 * block.shape[1] * statistics[_base(name)][1]
            total += unit ** 2 / 12 * np.mean((block * block).sum(1))
    return total


def _choose(parts: dict[str, _Part], statistics: dict[str, tuple[float, float]], given: dict[str, int],
            result_range: tuple[int, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Fractions and limits of all vectors with the least expected error."""
    names = sorted({_base(name) for part in parts.values() for name in part.terms} | {"h"})
    candidates = []
    for name in names:
        largest = statistics[name][0]
        fits = [f for f in FRACTIONS if largest * 2.0 ** f <= (1 << 15) - (name != "h")]
        if name == "h":
            fits = [f for f in fits if result_range[0] <= f <= result_range[1]]
        if name in given:
            low, high = result_range if name == "h" else (FRACTIONS[-1], FRACTIONS[0])
            if not isinstance(given[name], Integral) or isinstance(given[name], bool) or not low <= given[name] <= high:
                raise UsageError(f"fractions of {name} must be an integer from {low} to {high}, not {given[name]!r}")
            fits = [int(given[name])]
        if not fits:
            raise UsageError(f"magnitude of {name} must be at most {2.0 ** (15 - (result_range[0] if name == 'h' else FRACTIONS[-1])):g}, "
                             f"not {largest:g}")
        candidates.append(fits[:12 if len(names) <= 2 else 5])
    best: tuple[float, dict[str, int], dict[str, int]] | None = None
    for choice in itertools.product(*candidates):
        fractions = dict(zip(names, choice))
        limits = {name: min(1 << 15, int(np.ceil(statistics[name][0] * 2.0 ** fractions[name]))) or 1 for name in names}
        error = _error(parts, fractions, limits, statistics)
        if best is None or error < best[0]:
            best = error, fractions, limits
    assert best is not None     # each vector has a fraction
    return best[1:]


def _rounded(part: _Part, fractions: dict[str, int], scale: float,
             seen: _Seen | None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Weights in units of the sum, rounded, by vector, and bias.

    With as many vectors ``seen`` as elements or more, rounding is for these: after each column the error that it makes in their sums is
    taken from the columns behind it, as far as they can; the bias takes what all sums have in common. Columns with the largest elements
    come first.
    """
    units = {vector: block / (scale * 2.0 ** fractions[_base(vector)]) for vector, block in part.terms.items()}
    plain = {vector: np.rint(block) for vector, block in units.items()}, np.rint(part.bias / scale)
    if seen is None or not set(units) <= seen.vectors.keys():
        return plain
    rows = np.concatenate([seen.vectors[name] * 2.0 ** fractions[name] for name in units], axis=1)
    if not rows.shape[1] <= min(len(rows), MOST_ELEMENTS):
        return plain
    products = rows.T @ rows / len(rows)
    energy = np.diag(products).copy()
    if not energy.mean():
        return plain
    order = np.argsort(-energy, kind="stable")
    products = products[np.ix_(order, order)] + seen.damping * energy.mean() * np.eye(len(order))
    spread = np.linalg.cholesky(np.linalg.inv(products)).T
    wanted = np.concatenate(list(units.values()), axis=1)
    left, found = wanted[:, order], np.empty_like(wanted)
    for place, column in enumerate(order):
        found[:, column] = np.clip(np.rint(left[:, place]), -128, 127)
        error = (left[:, place] - found[:, column]) / spread[place, place]
        left[:, place + 1:] -= np.outer(error, spread[place, place + 1:])
    bias = np.rint(part.bias / scale + (wanted - found) @ rows.mean(axis=0))
    return dict(zip(units, np.split(found, np.cumsum([block.shape[1] for block in units.values()])[:-1], axis=1))), bias


def _gate(name: str, part: _Part, fractions: dict[str, int], limits: dict[str, int], scale: float | None,
          result_fraction: int, seen: _Seen | None) -> QuantisedGate:
    given = scale is not None
    if scale is None:
        scale = _scale(part, fractions, limits)
    weights = {}
    blocks, bias = _rounded(part, fractions, scale, None if given else seen)
    for vector, rounded in blocks.items():
        if given and rounded.size and not -128 <= rounded.min() <= rounded.max() <= 127:
            raise UsageError(f"weights of gate {name} for {vector} must be from -128 to 127 in units of their scale, not "
                             f"{rounded.min():.0f} to {rounded.max():.0f}")
        weights[vector] = np.clip(rounded, -128, 127).astype(np.int8)
    bound = np.abs(bias) + sum(np.abs(block.astype(np.int64)).sum(1) * limits[_base(vector)] for vector, block in weights.items())
    if bound.max(initial=0) >= _SUM_LIMIT and seen is not None:
        return _gate(name, part, fractions, limits, scale if given else None, result_fraction, None)
    if bound.max(initial=0) >= _SUM_LIMIT:
        raise UsageError(f"sums of gate {name} must stay below 2**31 with its scale of {scale:g}, not reach {bound.max():.0f}")
    fraction = part.fraction(result_fraction)
    # A power of two becomes 65535 rather than 32768: what is multiplied has 18 bits, and so half of the range would be lost.
    shift = int(np.floor(-np.log2(scale) - fraction))
    if shift < 0:
        raise UsageError(f"unit of the sums of gate {name} must be below {65535.0 * 2.0 ** (-fraction - 16):g}, not {scale:g}: 127 of them "
                         "are its largest weight times the unit of its vector, 2**26 its largest bias")
    shift = min(shift, 31)
    return QuantisedGate(weights, bias.astype(np.int32), float(scale), fraction, shift,
                         min(65535, round(scale * 2.0 ** (fraction + 16 + shift))))


def quantise_layer(layer: FloatLayer, data: Samples | None = None, *, fractions: dict[str, int] | None = None,
                   weight_scales: dict[str, float] | None = None, damping: float = OWN_DAMPING) -> QuantisedLayer:
    """``QuantisedLayer`` of a ``FloatLayer``.

    Parameters
    ----------
    data : list of (x [steps, inputs], h [size] or None, c [size] or None), optional
        Sequences from which the ranges of input and result are taken, and for which weights are rounded where they have as many steps as
        a sum has elements; none of their inputs is clipped. Default: magnitudes up to 1.
    fractions : dict of str to int, optional
        Fraction bits of "x0", "x1" … and "h", where they are given instead of chosen.
    weight_scales : dict of str to float, optional
        For a gate, the value of a unit of its weights for its first vector; those of the others follow from the fractions.
    damping : float
        How little rounding trusts ``data``: small where these are the sequences that are run, ``SAMPLE_DAMPING`` where they stand for
        others.

    A sum cannot overflow as long as elements keep to ``limits``. Raises ``ValueError`` when a range does not fit.
    """
    for name, values in (("fractions", fractions), ("weight_scales", weight_scales)):
        if not isinstance(values, dict | None):
            raise UsageTypeError(f"{name} must be a dictionary, not {type(values).__name__}")
    fractions, weight_scales = fractions or {}, weight_scales or {}
    if not isinstance(layer, FloatLayer):
        raise UsageTypeError(f"layer must be of type FloatLayer, not {type(layer).__name__}")
    if not isinstance(damping, Real) or isinstance(damping, bool) or not 0 < damping < np.inf:
        raise UsageError(f"damping must be a positive number, not {damping!r}")
    parts = _parts(layer)
    for name, scale in weight_scales.items():
        if not isinstance(scale, Real) or isinstance(scale, bool) or not 0 < scale < np.inf:
            raise UsageError(f"weight_scales of {name} must be a positive number, not {scale!r}")
    for kind, values, known in (("fractions", fractions, ["h", *(f"x{n}" for n in range(len(layer.widths)))]),
                                ("weight_scales", weight_scales, list(parts))):
        for name in values:
            if name not in known:
                raise UsageError(f"{kind} must be among {', '.join(known)}, not {name!r}")
    try:
        samples = [] if data is None else list(data)
    except TypeError:
        raise UsageTypeError(f"data must be a list of tuples (x, h, c), not {type(data).__name__}") from None
    if samples:
        vectors, results = _vectors(layer, samples)
        seen: _Seen | None = _Seen(vectors, float(damping))
        statistics = _statistics(vectors | {"h": results})
    else:
        seen = None
        statistics = {f"x{n}": (1.0, 0.25) for n in range(len(layer.widths))} | {"h": (1.0, 0.25)}
    low, high = _result_fractions(layer)
    if high == 15:      # tanh and sigmoid reach 1 whatever the data
        statistics["h"] = max(1.0, statistics["h"][0]), statistics["h"][1]
    chosen, limits = _choose(parts, statistics, fractions, (low, high))
    # Tanh and sigmoid bound the result, up to rounding; else nothing but saturation does.
    limits["h"] = min(1 << 15, limits["h"] + 1) if high == 15 else 1 << 15
    gates = {}
    for name, part in parts.items():
        first = _base(next(iter(part.terms)))
        given = weight_scales[name] * 2.0 ** -chosen[first] if name in weight_scales else None
        gates[name] = _gate(name, part, chosen, limits, given, chosen["h"], seen)
    return QuantisedLayer(layer.kind, layer.size, gates, tuple(FUNCTIONS[name] for name in layer.activations), chosen, limits,
                          _peepholes(layer, parts), layer.linear_before_reset, widths=layer.widths)


def _peepholes(layer: FloatLayer, parts: dict[str, _Part]) -> np.ndarray | None:
    if layer.peepholes is None or not np.any(layer.peepholes):
        return None
    for name in "iof":
        if parts[name].function not in BOUNDED:
            raise UsageError(f"activation of gate {name} must be Sigmoid or Tanh with peepholes, not {parts[name].function.name.title()}")
    scaled = np.rint(layer.peepholes * (1 << PEEPHOLE_FRACTION))
    if np.abs(scaled).max() > 32767:
        raise UsageError(f"magnitude of peepholes must be below 8, not {np.abs(layer.peepholes).max():g}")
    return scaled.astype(np.int16)


def quantise_vector(values: ArrayLike, fraction: int, limit: int = 32767) -> np.ndarray:
    """Elements of 16 bits with ``fraction`` fraction bits, kept within ``limit``."""
    return np.clip(np.rint(np.asarray(values, np.float64) * 2.0 ** fraction), -limit, min(limit, 32767)).astype(np.int16)
