"""RNNoise on a device: cycles of a frame, alone and with several streams as threads, and the error of its gains."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from heddle.errors import UsageError

from ..rnn.network import Sequence, SequenceResult
from ..rnn.rnnoise import float_gains, rnnoise_network, synthetic_features
from .bench_rnn import compare_results
from .common import CommandFailed, print_rows

if TYPE_CHECKING:
    from ..device.device import Device

__all__ = ["FRAMES", "GAIN_ERROR", "load_weights", "print_rnnoise", "rnnoise_row"]

FRAMES = 200                # that the gains are compared over
PACE_FRAMES = 20, 40        # of the runs whose difference is the time of a frame
GAIN_ERROR = 0.02           # that gains may be off


def load_weights(path: str | None) -> dict[str, np.ndarray]:
    """Arrays of an .npz file by name; raises ``UsageError`` when they are not those of RNNoise."""
    if path is None:
        raise UsageError("--weights must be given with --suite rnnoise: an .npz file of the published arrays (docs/recurrent.md)")
    try:
        with np.load(path) as found:
            arrays = dict(found)
    except Exception as error:      # a damaged archive raises what zipfile, zlib and numpy come upon
        raise UsageError(f"--weights must be an .npz file with the arrays of RNNoise: {error}") from None
    try:
        rnnoise_network(arrays)
    except KeyError as error:
        raise UsageError(f"--weights must have the arrays of RNNoise, but {error.args[0]} is missing") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"--weights must be an .npz file with the arrays of RNNoise: {error}") from None
    return arrays


def rnnoise_row(device: Device, golden: Device | None, arrays: Mapping[str, np.ndarray], threads: int, seed: int,
                frames: int = FRAMES) -> dict[str, Any]:
    """A benchmark row: ``threads`` streams of synthetic features that take turns.

    ``cycles`` are those of ``frames`` frames of every stream, from weights and features in global memory to the gains there;
    ``cycles_per_frame`` is the difference of the engine's own counters between two shorter runs, for a frame of one stream; ``bound`` what
    the multipliers take without padding and waits. ``gain_error`` and ``voice_error`` are the largest differences to float64. Raises
    ``CommandFailed`` when ``GAIN_ERROR`` is exceeded, or when a result differs from that of ``golden``, a device of the functional
    simulator (None: not compared).
    """
    cfg, what = device.cfg, f"suite=rnnoise threads={threads} seed={seed}"
    features = [synthetic_features(frames, seed + stream) for stream in range(threads)]
    network = rnnoise_network(arrays, np.concatenate(features))
    engine = []
    for count in (*PACE_FRAMES, frames):
        sequences = [Sequence(network, np.resize(rows, (count, rows.shape[1]))) for rows in features]
        results, stats = device.run_tasks(sequences, threads)
        if golden:
            compare_results(results, golden.run_tasks(sequences, threads)[0], what)
        engine.append(stats.counters.get("rnn_steps", 0) + stats.counters.get("rnn_waits", 0))
    errors = np.array([_errors(arrays, rows, result) for rows, result in zip(features, results)]).max(axis=0)
    macs, peak = network.step.macs(), cfg.peak_macs_per_cycle
    row = {"suite": "rnnoise", "layer": "rnnoise", "threads": threads, "steps": frames, "seed": seed, "simulator": device.simulator}
    row |= stats.as_row() | {"cycles_per_frame": None, "frame_utilization": None, "bound": macs / peak}
    if stats.cycles is not None:
        pace = (engine[1] - engine[0]) / (PACE_FRAMES[1] - PACE_FRAMES[0]) / threads
        row |= {"cycles_per_frame": pace, "frame_utilization": macs / (peak * pace)}
    if errors[0] > GAIN_ERROR:
        raise CommandFailed(f"gains must be within {GAIN_ERROR} of float64, not {errors[0]:.4f} off ({what})")
    return row | {"gain_error": float(errors[0]), "voice_error": float(errors[1]), "checked": golden is not None}


def _errors(arrays: Mapping[str, np.ndarray], features: np.ndarray, result: SequenceResult) -> tuple[float, float]:
    gains, voice = float_gains(arrays, features)
    return np.abs(result.outputs["denoise_output.h"] - gains).max(), np.abs(result.outputs["vad_output.h"][:, 0] - voice).max()


def print_rnnoise(options: argparse.Namespace, config: str, rows: list[dict[str, Any]]) -> None:
    columns = ["layer", "threads", "steps", "cycles", "cycles_per_frame", "bound", "frame_utilization", "utilization", "gain_error",
               "voice_error", "checked"]
    print_rows(options, "rnn", config, rows, dict.fromkeys(columns))
