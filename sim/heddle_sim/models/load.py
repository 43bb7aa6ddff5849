"""Networks from files, by the suffix of their names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from heddle.config import Config, load_config
from heddle.errors import UsageError, UsageTypeError

from ..arguments import check_choice, check_integer
from ..device import Device
from ..device.device import SIMULATORS
from .errors import ModelError
from .model import Model
from .onnx.calibration import Calibration
from .onnx.reader import Shapes
from .onnx.source import OnnxSource
from .source import Source
from .tflite.source import TfliteSource

__all__ = ["SUFFIXES", "load_model", "read_source"]

SUFFIXES = (".tflite", ".onnx")
_MOST_LENGTH = 1 << 28
MEMORY_BYTES = 64 << 20         # of a device that is made for a network


def load_model(path: str | os.PathLike[str], config: Config | Device | str | os.PathLike[str] = "base", *,
               simulator: str = "verilator", shapes: Shapes | None = None,
               constants: Mapping[str, np.ndarray] | None = None, calibrate: Mapping[str, np.ndarray] | None = None,
               activation_bits: int = 8) -> Model:
    """A network from a file, with each of its nodes placed on the device or on the host.

    Parameters
    ----------
    path : str or path
        A .tflite or .onnx file.
    config : Config, str or Device
        Configuration, or the name or path of one; or a device, which stays open.
    simulator : str
        As of ``Device``; a device that is given has its own.
    shapes : dict of str to int or to integers
        Shapes of inputs by their names; of an ONNX file also lengths of symbolic dimensions by theirs.
    constants : dict of str to array
        Of an ONNX file: inputs that always have these elements, such as weights; ``run`` does not take them.
    calibrate : dict of str to array
        Of a float ONNX file: samples of each input, one of its shape or several, along an axis in front of it or along its first one.
        Convolutions, products, Gemm, Add and pools are quantised to 8 bits for their ranges, by onnxruntime.
    activation_bits : int
        8, or 16: then convolutions, products and Gemm have activations and weights of int16, and the rest stays float. Sums are made on
        the device, biases and requantisation on the host.

    Returns ``Model``, whose ``run`` takes inputs by name. Raises ``ModelError`` for a file that holds no network, ``MissingPackage``
    where the package that reads it is not installed.
    """
    check_choice("simulator", simulator, SIMULATORS)
    source = read_source(path, shapes, constants, calibrate, activation_bits)
    if isinstance(config, Device):
        device = config
        return Model(source, device.cfg, lambda: device, device.memory.bytes.size, owned=False)
    cfg = config if isinstance(config, Config) else load_config(config)
    return Model(source, cfg, lambda: Device(cfg, simulator, memory_bytes=MEMORY_BYTES), MEMORY_BYTES)


def read_source(path: str | os.PathLike[str], shapes: Shapes | None = None,
                constants: Mapping[str, np.ndarray] | None = None, calibrate: Mapping[str, np.ndarray] | None = None,
                activation_bits: int = 8) -> Source:
    """``Source`` of a file. Raises as ``load_model``."""
    if not isinstance(path, (str, os.PathLike)):
        raise UsageTypeError(f"path must be a path, not {type(path).__name__}")
    path = Path(path)
    if "\0" in str(path):
        raise ModelError(f"path must have no zero byte, not {str(path)!r}")
    if check_integer("activation_bits", activation_bits, 8, 16) not in (8, 16):
        raise UsageError(f"activation_bits must be 8 or 16, not {activation_bits}")
    if activation_bits == 16 and not calibrate:
        raise UsageError("activation_bits must be 8 without calibrate, not 16")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ModelError(f"path must end in {' or '.join(SUFFIXES)}, not {path.name!r}")
    source: Source
    if suffix == ".onnx":
        source = OnnxSource(path, _checked_shapes(shapes), constants, Calibration(calibrate, activation_bits) if calibrate else None)
    else:
        for name, given in (("constants", constants), ("calibrate", calibrate)):
            if given:
                raise UsageError(f"{name} must be none for a TFLite file, not those of {', '.join(map(str, given))}")
        source = TfliteSource(path, _checked_shapes(shapes))
    if not source.graph.outputs:
        raise ModelError(f"{path} must have at least one output, not none")
    return source


def _checked_shapes(shapes: Shapes | None) -> dict[str, int | tuple[int, ...]]:
    if shapes is None:
        return {}
    if not isinstance(shapes, Mapping):
        raise UsageTypeError(f"shapes must be a dictionary of names to lengths or shapes, not {type(shapes).__name__}")
    found: dict[str, int | tuple[int, ...]] = {}
    for name, value in shapes.items():
        if isinstance(value, (list, tuple)):
            found[name] = tuple(check_integer(f"shape of {name}", length, 1, _MOST_LENGTH) for length in value)
        else:
            found[name] = check_integer(f"shape of {name}", value, 1, _MOST_LENGTH)
    return found
