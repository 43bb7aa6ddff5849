"""RNNoise: three dense layers and three GRUs that read each other's results, all in one step of the engine.

The weights (xiph/rnnoise, int8, in units of 1/256) are not part of this project; ``arrays`` is a mapping of their published names, such as
an .npz file: ``<layer>_weights`` [inputs · gates · units], ``<layer>_recurrent_weights``, ``<layer>_bias``, gates z, r, candidate.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from .network import Network
from .quantise import quantise_layer
from .reference import FloatLayer, run_float

__all__ = ["FEATURES", "GAINS", "LAYERS", "float_gains", "rnnoise_layers", "rnnoise_network", "synthetic_features"]

FEATURES, GAINS = 42, 22
UNIT = 1 / 256
# Name: kind, units, activations, inputs ("features" or layers) in the order of the weights, order of the sweeps.
LAYERS = {
    "input_dense": ("dense", 24, ("Tanh",), ("features",), None),
    "vad_gru": ("gru", 24, ("Sigmoid", "Relu"), ("input_dense",), None),
    "vad_output": ("dense", 1, ("Sigmoid",), ("vad_gru",), None),
    "noise_gru": ("gru", 48, ("Sigmoid", "Relu"), ("input_dense", "vad_gru", "features"), ("x2", "x0", "x1", "h")),
    "denoise_gru": ("gru", 96, ("Sigmoid", "Relu"), ("vad_gru", "noise_gru", "features"), ("x2", "x0", "h", "x1")),
    "denoise_output": ("dense", GAINS, ("Sigmoid",), ("denoise_gru",), None),
}

# Sweeps of a step, numbered layer by layer, in the order of the engine: those of the features and of the dense layer for a later GRU run
# while an earlier layer waits for its own results.
SWEEPS = (0, 6, 1, 2, 3, 7, 4, 12, 5, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18)


def rnnoise_layers(arrays: Mapping[str, np.ndarray]) -> dict[str, FloatLayer]:
    """``FloatLayer`` by name."""
    sizes = {"features": FEATURES} | {name: units for name, (_, units, *_) in LAYERS.items()}
    layers = {}
    for name, (kind, units, activations, inputs, _) in LAYERS.items():
        gates, widths = 3 if kind == "gru" else 1, tuple(sizes[source] for source in inputs)

        def matrix(part: str, rows: int, name: str = name, gates: int = gates, units: int = units) -> np.ndarray:
            return np.asarray(arrays[f"{name}_{part}"], np.float64).reshape(rows, gates, units).transpose(1, 2, 0) * UNIT

        recurrent = matrix("recurrent_weights", units) if kind == "gru" else None
        bias = matrix("bias", 1)[:, :, 0]
        layers[name] = FloatLayer(kind, matrix("weights", sum(widths)), recurrent, bias, np.zeros_like(bias), activations, widths=widths)
    return layers


def _float_results(arrays: Mapping[str, np.ndarray], features: ArrayLike) -> dict[str, np.ndarray]:
    results = {"features": np.asarray(features, np.float64)}
    for name, layer in rnnoise_layers(arrays).items():
        x = np.concatenate([results[source] for source in LAYERS[name][3]], axis=1)
        results[name] = run_float(layer, x)[0]
    return results


def float_gains(arrays: Mapping[str, np.ndarray], features: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Gains [frames, 22] and voice probability [frames] in float64."""
    results = _float_results(arrays, features)
    return results["denoise_output"], results["vad_output"][:, 0]


def rnnoise_network(arrays: Mapping[str, np.ndarray], features: ArrayLike | None = None,
                    cats: int | dict[str, int] | None = None) -> Network:
    """``Network`` with input "features" and outputs "denoise_output.h" and "vad_output.h".

    All vectors have the same fraction, so that all weights keep their published values. It leaves one and a half times the range of what
    the float network makes of ``features``. Candidates get twice that, as they go beyond states; 10 bits without, for magnitudes up to 16.
    """
    largest = 16.0 if features is None else max(np.abs(rows).max() for rows in _float_results(arrays, features).values())
    fraction = int(np.floor(np.log2(32768 / max(1.5 * largest, 4.0))))
    network = Network(cats=cats)
    network.add_input("features", FEATURES, fraction)
    for name, layer in rnnoise_layers(arrays).items():
        *_, inputs, order = LAYERS[name]
        fractions = {f"x{number}": fraction for number in range(len(inputs))} | {"h": fraction}
        scales = dict.fromkeys("zrn" if layer.kind == "gru" else "i", UNIT)
        quantised = quantise_layer(layer, fractions=fractions, weight_scales=scales)
        network.add(name, quantised, ["features" if source == "features" else f"{source}.h" for source in inputs], order)
    network.step.sweeps = [network.step.sweeps[number] for number in SWEEPS]
    network.step.outputs += ["denoise_output.h", "vad_output.h"]
    return network


def synthetic_features(frames: int, seed: int) -> np.ndarray:
    """Features that change slowly, of the range of real ones: float64 [frames, 42]."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((frames + 32, FEATURES))
    kernel = np.hanning(17)[1:-1]
    smooth = np.stack([np.convolve(column, kernel / np.sqrt(np.sum(kernel ** 2)), "same") for column in noise.T], axis=1)[16:16 + frames]
    return smooth * np.where(np.arange(FEATURES) < GAINS, 1.0, 0.25)
