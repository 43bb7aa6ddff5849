"""``heddle bench models``: networks of others from files, kept loaded, and a recurrent network whose weights stay in registers."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError

from ..device import Device
from ..models.chains import LayerChain
from ..models.folder import FOLDER_VARIABLE, models_folder
from ..models.load import read_source
from ..models.model import Model
from ..models.onnx.recurrent import Recurrent
from ..models.operations import Convolution, FullyConnected
from ..models.placement import PlacedNode
from ..models.source import Source
from ..models.wide import WideConvolution, WideProduct
from ..rnn.network import Network
from .bench_rnn import drawn_network
from .common import add_config, add_device, add_json, check_result, open_device, print_rows, progress_for, require, seed

__all__ = ["add_models", "run_models"]

_TINY = ("resnet8", "kws", "vww", "ad01")
_VOICE = "silero_vad_16k_sequence.onnx"
_FRAME_SAMPLES = 512 + 64       # of 32 ms at 16 kHz, with those of the frame before that a frame begins with
_UNITS = 128                    # of the layer that stays in registers, as many as that of Silero VAD
_STEPS = 20

Rows = list[dict[str, Any]]


def add_models(what: argparse._SubParsersAction) -> argparse.ArgumentParser:
    """The parser of the verb."""
    models = what.add_parser("models", help="networks of others from files; networks that stay loaded")
    models.add_argument("--suite", choices=_SUITES, default="loaded",
                        help=f"loaded (default): calls of an LSTM of {_UNITS} units whose weights stay in registers; tiny: MLPerf "
                        f"Tiny, from {FOLDER_VARIABLE} or ../shared/models; silero: Silero VAD, of the package silero-vad")
    models.add_argument("--quick", action="store_true", help="one row of each network")
    models.add_argument("--seed", type=seed, default=0, help="of inputs, weights that are drawn, and the memory (default 0)")
    models.add_argument("--no-check", action="store_true", help="do not compare with the functional simulator")
    add_device(models)
    add_config(models)
    add_json(models)
    return models


def run_models(options: argparse.Namespace, cfg: Config) -> None:
    """Print the rows of a suite."""
    make, columns = _SUITES[options.suite]
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        golden = None if options.no_check else Device(cfg, "golden", memory_bytes=options.memory_mib << 20)
        rows = [{"suite": options.suite} | row | {"seed": options.seed, "simulator": device.simulator, "checked": golden is not None}
                for row in make(options, device, golden)]
    print_rows(options, "models", cfg.name, rows, dict.fromkeys((*columns, "checked")))


def _tiny(options: argparse.Namespace, device: Device, golden: Device | None) -> Rows:
    """A row for each network and each of three calls: alone, the first one of a loaded network, the next one."""
    folder = models_folder()
    names = [name for name in _TINY if (folder / f"{name}.tflite").is_file()]
    if not names:
        raise UsageError(f"{FOLDER_VARIABLE} must be a folder with {', '.join(f'{name}.tflite' for name in _TINY)}, not {folder}")
    rows: Rows = []
    for name in names:
        source = read_source(folder / f"{name}.tflite")
        with _model(source, device) as model, device.load(model) as loaded:
            inputs = _inputs(model, options.seed)
            calls: dict[str, Callable[[], Any]] = {"run": partial(model.run, inputs)}
            if not options.quick:
                calls |= {"first": partial(loaded, inputs), "next": partial(loaded, inputs)}
            for call, run in calls.items():
                rows.append({"network": name, "call": call} | _measured(model, run, golden, inputs))
    return rows


def _silero(options: argparse.Namespace, device: Device, golden: Device | None) -> Rows:
    """A row for each form and number of frames: float with the recurrent layer on the device; 16 bits with the convolutions there too."""
    require(device.cfg, "rnn", "bench models --suite silero")
    path, rows = _voice_activity(), []
    for form, bits in (("float", None), ("16 bits", 16)):
        for frames in (1,) if options.quick else (1, 8):
            rng = np.random.default_rng(options.seed)
            state = np.zeros((1, 1, _UNITS), np.float32)
            inputs = {"input": 0.05 * rng.standard_normal((frames, _FRAME_SAMPLES)).astype(np.float32), "h": state, "c": state}
            source = read_source(path, {"sequence_length": frames}, calibrate=inputs if bits else None, activation_bits=bits or 8)
            with _model(source, device) as model:
                found = _measured(model, partial(model.run, inputs), golden, inputs)
            row = {"network": "silero_vad", "form": form, "frames": frames, "on_device": _on_device(model)} | found
            row["cycles_per_frame"] = None if found["cycles"] is None else found["cycles"] / frames
            rows.append(row | {"bound_per_frame": found["bound"] / frames})
    return rows


def _loaded(options: argparse.Namespace, device: Device, golden: Device | None) -> Rows:
    """A row for each call, and one for a step: the difference of calls of two lengths."""
    require(device.cfg, "rnn", "bench models --suite loaded")
    network = drawn_network(device.cfg, np.random.default_rng(options.seed), "lstm", _UNITS, _UNITS)
    if network is None:
        raise UsageError(f"--config must hold an LSTM of {_UNITS} units and {_UNITS} inputs for bench models --suite loaded, not "
                         f"{device.cfg.name}")
    cfg, macs = device.cfg, network.step.macs()
    x = np.random.default_rng([options.seed, _UNITS]).standard_normal((_STEPS, _UNITS)) / 3
    step_bound = macs / cfg.peak_macs_per_cycle
    rows: Rows = []
    with device.load(network) as loaded:
        for call, steps in (("first", 1), ("next", 1), ("next", _STEPS)):
            loaded.reset()
            begin = time.perf_counter()
            found = loaded(x[:steps])
            seconds = time.perf_counter() - begin
            if golden is not None:
                _check_outputs(found.outputs, _of_golden(golden, network, x[:steps]), f"call={call} steps={steps}")
            bound = max(macs // cfg.axi_bytes if found.loaded else 0, steps * step_bound)       # a byte for each weight
            rows.append({"network": f"lstm_{_UNITS}", "call": call, "steps": steps, "loads_weights": found.loaded, "bound": float(bound)}
                        | found.stats.as_row() | {"seconds": seconds})
    short, long = rows[1]["cycles"], rows[2]["cycles"]
    pace = None if short is None else (long - short) / (_STEPS - 1)
    rows.append({"network": f"lstm_{_UNITS}", "call": "step", "steps": None, "loads_weights": False, "cycles": pace, "bound": step_bound,
                 "macs": macs, "peak_macs_per_cycle": cfg.peak_macs_per_cycle, "utilization": pace and step_bound / pace, "seconds": None})
    return rows


_SUITES: dict[str, tuple[Callable[[argparse.Namespace, Device, Device | None], Rows], tuple[str, ...]]] = {
    "loaded": (_loaded, ("network", "call", "steps", "loads_weights", "cycles", "bound", "utilization")),
    "tiny": (_tiny, ("network", "call", "macs", "cycles", "bound", "bound_by", "utilization", "seconds")),
    "silero": (_silero, ("network", "form", "frames", "on_device", "cycles", "cycles_per_frame", "bound_per_frame", "bound_by"))}


def _model(source: Source, device: Device) -> Model:
    return Model(source, device.cfg, lambda: device, device.memory.bytes.size, owned=False)


def _inputs(model: Model, number: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(number)
    return {name: rng.integers(-128, 128, tensor.shape, np.int8) for name, tensor in model.inputs().items()}


def _voice_activity() -> Path:
    """The file that the wheel of Silero VAD carries. Raises ``UsageError`` where it is not installed."""
    try:
        files = metadata.files("silero-vad") or []
    except metadata.PackageNotFoundError:
        files = []
    found = next((Path(str(file.locate())) for file in files if file.name == _VOICE), None)
    if found is None:
        raise UsageError(f"--suite silero must find {_VOICE} of the package silero-vad (pip install --no-deps silero-vad)")
    return found


def _measured(model: Model, run: Callable[[], Any], golden: Device | None, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Figures of a run; raises ``CommandFailed`` where its outputs are not those of ``golden``."""
    begin = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - begin
    if golden is not None:
        with _model(model.source, golden) as other:
            _check_outputs(found.outputs, other.run(inputs).outputs, f"inputs {', '.join(inputs)}")
    return _bound(model) | found.stats.as_row() | {"seconds": seconds, "host_seconds": found.host_seconds}


def _check_outputs(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], about: str) -> None:
    for name, array in wanted.items():
        check_result(name, found[name], array, "the functional simulator", about)


def _of_golden(golden: Device, network: Network, x: np.ndarray) -> dict[str, np.ndarray]:
    with golden.load(network) as loaded:
        return loaded(x).outputs


def _on_device(model: Model) -> str:
    return " ".join(placed.node.op for placed in model.placement if placed.operation is not None)


def _bound(model: Model) -> dict[str, Any]:
    """Cycles that no run can beat: of the multipliers, or of the bus for the weights."""
    cfg = model.cfg
    placed = [node for node in model.placement if node.operation is not None]
    multipliers = sum(_multiplier_cycles(cfg, node) for node in placed)
    bus = sum(_weight_bytes(node) for node in placed) / cfg.axi_bytes
    return {"bound": max(multipliers, bus), "bound_by": "multipliers" if multipliers >= bus else "bus"}


def _multiplier_cycles(cfg: Config, node: PlacedNode) -> float:
    if isinstance(node.operation, (WideConvolution, WideProduct)):
        return node.macs * len(node.operation.parts) / cfg.peak_macs(2)
    return node.macs / cfg.peak_macs_per_cycle


def _weight_bytes(node: PlacedNode) -> int:
    operation = node.operation
    if isinstance(operation, (WideConvolution, WideProduct)):
        return sum(part.nbytes for _, part in operation.parts)
    if isinstance(operation, Recurrent):        # of 8 bits on the device
        return sum(operation.constants[place].size for place in (1, 2) if place in operation.constants)
    if isinstance(operation, LayerChain):
        return sum(layer.w.nbytes for layer in operation.layers)
    return operation.w.nbytes if isinstance(operation, (Convolution, FullyConnected)) else 0
