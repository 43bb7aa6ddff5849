"""The part of ``Device`` that runs recurrent networks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError, UsageTypeError
from numpy.typing import ArrayLike

from ..rnn.network import Network, Sequence, SequenceResult
from ..rnn.onnx import OnnxOperands, onnx_operands
from ..rnn.quantise import QuantisedLayer
from .host import Host
from .recurrent import check_contexts, run_sequences
from .results import LstmOutputs, RecurrentOutputs, RecurrentResult, TaskResults
from .stats import Stats

__all__ = ["Loadable", "LoadedNetwork", "LoadedResult", "RecurrentAccess"]

Names = list[str] | tuple[str, ...]
Quantised = list[QuantisedLayer] | tuple[QuantisedLayer, ...]


def _check_size(cfg: Config, onnx: OnnxOperands) -> None:
    """What cannot fit whatever the layout is said before anything is quantised."""
    most = cfg.threads * cfg.dot * cfg.factor_words
    count = sum(layer.w.size + (0 if layer.r is None else layer.r.size) for layer in onnx.layers)
    if count > most:
        raise UsageError(f"W and R must have at most {most} elements (threads {cfg.threads} x dot {cfg.dot} x factor_words "
                         f"{cfg.factor_words} of configuration {cfg.name}), not {count}")


def _check_quantised(quantised: Quantised, onnx: OnnxOperands) -> None:
    """Raises when layers are not those of the operands."""
    if not isinstance(quantised, (list, tuple)):
        raise UsageTypeError(f"quantised must be a list of layers, not {type(quantised).__name__}")
    if len(quantised) != len(onnx.layers):
        raise UsageError(f"quantised must be {len(onnx.layers)} layers, one for each direction, not {len(quantised)}")
    for found, layer in zip(quantised, onnx.layers):
        if not isinstance(found, QuantisedLayer):
            raise UsageTypeError(f"quantised must be layers of type QuantisedLayer, not {type(found).__name__}")
        wanted = layer.kind, layer.size, layer.widths, layer.linear_before_reset
        if (found.kind, found.size, found.widths, found.linear_before_reset) != wanted:
            raise UsageError(f"quantised must be of kind, size, inputs and linear_before_reset {wanted}, not "
                             f"{(found.kind, found.size, found.widths, found.linear_before_reset)}")


class _Options(NamedTuple):
    contexts: int | None
    cats: int | None
    skip_zeros: bool
    threshold: float | None
    quantised: Quantised | None
    fractions: dict[str, int] | None
    weight_scales: dict[str, float] | None


@runtime_checkable
class Loadable(Protocol):
    """A network of several layers that a device can load."""

    def load_on(self, device: Any) -> AbstractContextManager[Any]: ...


class LoadedResult(NamedTuple):
    """Of a call of a ``LoadedNetwork``: ``outputs`` and ``states`` by name, float32; ``loaded``: the call loaded weights."""

    outputs: dict[str, np.ndarray]
    states: dict[str, np.ndarray]
    stats: Stats
    loaded: bool


class LoadedNetwork:
    """A recurrent network whose weights and biases stay in the registers of a device between calls; a context manager.

    The first call loads them, and each one behind another run of the device. ``stats`` of the others are those of the steps alone, with
    what copies inputs and results. States are those of the call before, until ``reset``.
    """

    def __init__(self, device: Host, network: Network) -> None:
        self.device, self.network = device, network
        self._states: dict[str, ArrayLike] = {}
        self._runs: int | None = None           # of the device, when the weights were there

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._runs = None

    def reset(self) -> None:
        """The next call begins with states of zero."""
        self._states = {}

    def __call__(self, x: ArrayLike) -> LoadedResult:
        """Run the steps of a sequence, as ``run_tasks`` of one ``Sequence`` of the network."""
        there = self._runs is not None and self._runs == self.device.runs
        sequence = Sequence(self.network, x, self._states)
        (result,), stats = run_sequences(self.device, [sequence], loaded=there)
        self._states, self._runs = dict(result.states), self.device.runs
        return LoadedResult(result.outputs, result.states, stats, not there)


class RecurrentAccess(Host):
    """LSTM, GRU and plain recurrent layers with ONNX's operands, and tasks of several networks [S3.5-S3.7].

    The configuration must have ``rnn``. Weights are quantised to 8 bits, inputs and states to 16 (``heddle_sim.rnn.quantise``); batch
    elements and directions are tasks that take turns. Options of all three operators:

    direction : str
        "forward", "reverse" or "bidirectional".
    layout : int
        0: ``x`` (steps, batch, inputs), ``Y`` (steps, directions, batch, hidden), states (directions, batch, hidden); 1: batch first.
    activations : list of str, optional
        "Sigmoid", "Tanh", "Relu" or "Affine", for each direction those of ONNX's f, g, h.
    sequence_lens : int array (batch,), optional
        Steps of each batch element; what lies behind is zero in ``Y``.
    contexts : int, optional
        Tasks that take turns; as many as fit by default.
    cats : int, optional
        Dot products of a lane (1, 2 or 4); chosen by the cycle model by default.
    skip_zeros : bool
        Columns of zeros take no time of the multipliers; results are the same (counter ``rnn_skipped``).
    threshold : float, optional
        Nor do elements that changed by less than this; see ``Network``.
    quantised : list of QuantisedLayer, optional
        For each direction, instead of quantising here; else ``fractions`` and ``weight_scales`` as for ``quantise_layer``.
    """

    # Operands have ONNX's names.
    def lstm(self, x: ArrayLike, W: ArrayLike, R: ArrayLike, B: ArrayLike | None = None, sequence_lens: ArrayLike | None = None,      # noqa: N803
             initial_h: ArrayLike | None = None, initial_c: ArrayLike | None = None, P: ArrayLike | None = None, *,      # noqa: N803
             direction: str = "forward", layout: int = 0, activations: Names | None = None, contexts: int | None = None,
             cats: int | None = None, skip_zeros: bool = False, threshold: float | None = None, quantised: Quantised | None = None,
             fractions: dict[str, int] | None = None, weight_scales: dict[str, float] | None = None) -> RecurrentResult:
        """LSTM: W (directions, 4 hidden, inputs), R (directions, 4 hidden, hidden), B (directions, 8 hidden), gates i, o, f, c; peepholes P
        (directions, 3 hidden), i, o, f. Returns ``RecurrentResult`` with ``LstmOutputs`` in float32."""
        form = {"direction": direction, "layout": layout, "activations": activations}
        options = _Options(contexts, cats, skip_zeros, threshold, quantised, fractions, weight_scales)
        return self._recurrent("lstm", (x, W, R, B, sequence_lens, initial_h, initial_c, P), form, options)

    def gru(self, x: ArrayLike, W: ArrayLike, R: ArrayLike, B: ArrayLike | None = None, sequence_lens: ArrayLike | None = None,      # noqa: N803
            initial_h: ArrayLike | None = None, *, direction: str = "forward", layout: int = 0, activations: Names | None = None,
            linear_before_reset: int = 0, contexts: int | None = None, cats: int | None = None, skip_zeros: bool = False,
            threshold: float | None = None, quantised: Quantised | None = None, fractions: dict[str, int] | None = None,
            weight_scales: dict[str, float] | None = None) -> RecurrentResult:
        """GRU: W (directions, 3 hidden, inputs), R (directions, 3 hidden, hidden), B (directions, 6 hidden), gates z, r, h.
        ``linear_before_reset`` 1: the reset gate acts on the product of the hidden vector, else on that vector.
        Returns ``RecurrentResult`` with ``RecurrentOutputs`` in float32."""
        form = {"direction": direction, "layout": layout, "activations": activations, "linear_before_reset": linear_before_reset}
        options = _Options(contexts, cats, skip_zeros, threshold, quantised, fractions, weight_scales)
        return self._recurrent("gru", (x, W, R, B, sequence_lens, initial_h), form, options)

    def rnn(self, x: ArrayLike, W: ArrayLike, R: ArrayLike, B: ArrayLike | None = None, sequence_lens: ArrayLike | None = None,      # noqa: N803
            initial_h: ArrayLike | None = None, *, direction: str = "forward", layout: int = 0, activations: Names | None = None,
            contexts: int | None = None, cats: int | None = None, skip_zeros: bool = False, threshold: float | None = None,
            quantised: Quantised | None = None, fractions: dict[str, int] | None = None,
            weight_scales: dict[str, float] | None = None) -> RecurrentResult:
        """Plain recurrent layer: W (directions, hidden, inputs), R (directions, hidden, hidden), B (directions, 2 hidden).
        Returns ``RecurrentResult`` with ``RecurrentOutputs`` in float32."""
        form = {"direction": direction, "layout": layout, "activations": activations}
        options = _Options(contexts, cats, skip_zeros, threshold, quantised, fractions, weight_scales)
        return self._recurrent("rnn", (x, W, R, B, sequence_lens, initial_h), form, options)

    def run_tasks(self, sequences: Iterable[Sequence], contexts: int | None = None) -> TaskResults:
        """Run ``Sequence``s of one or several ``Network``s, as tasks that take turns. Returns ``TaskResults``.

        ``stats`` counts from weights and inputs in global memory to the outputs there: each call loads weights and biases, once for all
        its runs.
        """
        if isinstance(sequences, Sequence):
            raise UsageTypeError("sequences must be a list of Sequence, not one")
        try:
            sequences = list(sequences)
        except TypeError:
            raise UsageTypeError(f"sequences must be a list of Sequence, not {sequences!r}") from None
        for sequence in sequences:
            if not isinstance(sequence, Sequence):
                raise UsageTypeError(f"sequences must be of type Sequence, not {type(sequence).__name__}")
        if not sequences:
            raise UsageError("sequences must be at least one, not none")
        return TaskResults(*run_sequences(self, sequences, contexts))

    def load(self, network: Network | Loadable) -> AbstractContextManager[Any]:
        """A network that stays loaded between calls: ``with device.load(network) as loaded: loaded(x)``.

        Of a ``Network`` the weights stay in the factor registers: ``LoadedNetwork``. Of one of ``heddle_sim.load_model(path, device)``
        they stay in global memory: ``heddle_sim.models.model.LoadedModel``.
        """
        if isinstance(network, Network):
            check_contexts(self.cfg, None)
            return LoadedNetwork(self, network)
        if not isinstance(network, Loadable):
            raise UsageTypeError(f"network must be a Network, or one of load_model, not {type(network).__name__}")
        return network.load_on(self)

    def _recurrent(self, kind: str, operands: tuple[ArrayLike | None, ...], form: dict[str, Any], options: _Options) -> RecurrentResult:
        layout: dict[str, Any] = {"cats": options.cats, "skip_zeros": options.skip_zeros, "threshold": options.threshold}
        contexts, quantised = options.contexts, options.quantised
        check_contexts(self.cfg, contexts)
        onnx = onnx_operands(kind, *operands, **form)   # type: ignore[arg-type]    # the first three are there
        _check_size(self.cfg, onnx)
        if quantised is not None:
            _check_quantised(quantised, onnx)
        networks = []
        for index, (layer, reverse) in enumerate(zip(onnx.layers, onnx.reverse)):
            if quantised is not None:
                networks.append(Network.of_quantised(quantised[index], reverse=reverse, **layout))
            else:
                networks.append(Network.of_layer(layer, onnx.data(index), reverse=reverse, **layout, fractions=options.fractions,
                                                 weight_scales=options.weight_scales))
        sequences = {}
        for batch, length in enumerate(onnx.lengths):
            for index, network in enumerate(networks):
                if length:
                    states = {"y.h": onnx.h[index, batch]} | ({"y.c": onnx.c[index, batch]} if kind == "lstm" else {})
                    sequences[index, batch] = Sequence(network, onnx.x[:length, batch], states)
        results: list[SequenceResult] = []
        stats = Stats(None, 0, self.cfg.peak_macs_per_cycle)
        if sequences:
            results, stats = run_sequences(self, sequences.values(), contexts)
        found = dict(zip(sequences, results))
        finals = [{key: result.states[name] for key, result in found.items()} for name in ("y.h", "y.c")[:1 + (kind == "lstm")]]
        outputs = LstmOutputs if kind == "lstm" else RecurrentOutputs
        return RecurrentResult(outputs(*onnx.arrange({key: result.outputs["y.h"] for key, result in found.items()}, *finals)), stats)
