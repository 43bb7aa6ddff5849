"""ONNX's backend interface: ``prepare``, ``run_model`` and ``supports_device`` for tools that know ``onnx.backend.base.Backend``.

Devices are the names of configurations, on the generated hardware; with ``:golden`` behind them on the functional simulator:
``"base"``, ``"tiny:golden"``. ``"CPU"`` is ``"base:golden"``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from heddle import load_config
from heddle.config import Config
from heddle.errors import HeddleError, UsageError
from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ..arguments import check_choice
from ..device import Device
from ..device.device import SIMULATORS
from ..models import Model, load_model
from ..models.load import MEMORY_BYTES

__all__ = ["HeddleBackend", "HeddleRep", "prepare", "run_model", "supports_device"]

_CPU = "base:golden"


class HeddleRep(BackendRep):
    """A network that runs with one set of inputs after the other; a context manager that closes its device.

    Attributes
    ----------
    device : Device
    model : Model or None
        As it was placed for the shapes of the last inputs.
    """

    def __init__(self, proto: ModelProto, device: Device, options: dict[str, Any]) -> None:
        self.device, self._options = device, options
        self.model: Model | None = None
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "model.onnx"
        self._path.write_bytes(proto.SerializeToString())
        constants = {tensor.name for tensor in proto.graph.initializer}
        self._inputs = [value.name for value in proto.graph.input if value.name not in constants]
        self._models: dict[tuple[tuple[int, ...], ...], Model] = {}

    def __enter__(self) -> HeddleRep:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the device; safe to call twice."""
        self.device.close()
        self._folder.cleanup()

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Outputs in their order, as a tuple with their names.

        ``inputs``: arrays in the order of the inputs, by name, or one array. Symbolic dimensions are bound by their shapes.
        """
        if kwargs:
            raise UsageError(f"run must have inputs only, not {', '.join(kwargs)}")
        named = self._named(inputs)
        shapes = {name: array.shape for name, array in named.items()}
        key = tuple(shapes[name] for name in self._inputs)
        if key not in self._models:
            known = {name: shape for name, shape in shapes.items() if shape}
            self._models[key] = load_model(self._path, self.device, shapes=known, **self._options)
        model = self.model = self._models[key]
        outputs = model.run(named).outputs
        return namedtupledict("Outputs", list(outputs))(*outputs.values())

    def _named(self, inputs: Any) -> dict[str, np.ndarray]:
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if isinstance(inputs, Mapping):
            named = dict(inputs)
        elif isinstance(inputs, Sequence) and len(inputs) == len(self._inputs):
            named = dict(zip(self._inputs, inputs))
        else:
            raise UsageError(f"inputs must be {len(self._inputs)} arrays ({', '.join(self._inputs)}), not {type(inputs).__name__}")
        if set(named) != set(self._inputs):
            raise UsageError(f"inputs must be {', '.join(self._inputs)}, not {', '.join(map(str, named))}")
        return {name: np.asarray(array) for name, array in named.items()}


class HeddleBackend(Backend):
    """Networks on a device: nodes that it has run there, the others in onnxruntime (``heddle_sim.load_model``)."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "base", **kwargs: Any) -> HeddleRep:
        """``HeddleRep`` of a model; ``device``: see above. ``calibrate`` and ``constants`` as of ``load_model``."""
        unknown = set(kwargs) - {"calibrate", "constants"}
        if unknown:
            raise UsageError(f"options must be calibrate or constants, not {', '.join(sorted(unknown))}")
        cfg, simulator = _device_of(device)
        return HeddleRep(model, Device(cfg, simulator, memory_bytes=MEMORY_BYTES), kwargs)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "base", **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Outputs of a model for ``inputs``, as ``HeddleRep.run``."""
        with cls.prepare(model, device, **kwargs) as prepared:
            return prepared.run(inputs)

    @classmethod
    def run_node(cls, node: NodeProto, inputs: Any, device: str = "base", outputs_info: Any = None, **kwargs: Any) -> Any:
        """Refused: a node alone has no types of its results. ``run_model`` runs a model of one node."""
        raise UsageError(f"a node must be in a model (run_model), not alone: {node.op_type}")

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether ``prepare`` takes a device by this name."""
        try:
            _device_of(device)
        except HeddleError:
            return False
        return True


def _device_of(name: str) -> tuple[Config, str]:
    config, _, simulator = (_CPU if name == "CPU" else name).partition(":")
    return load_config(config), check_choice("simulator", simulator or SIMULATORS[0], SIMULATORS)


prepare, run_model, supports_device = HeddleBackend.prepare, HeddleBackend.run_model, HeddleBackend.supports_device
