"""Heddle in software: golden models, assembler, simulated device, kernels and command line.

Names are imported when they are first used, so that what does not need a device starts at once.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:       # the same names as in the table, for type checkers and editors
    from heddle.config import ConfigError
    from heddle.errors import HeddleError

    from .device import Device, DeviceError, OutOfMemory, Stats
    from .golden.requantise import Requantise
    from .models import Model, ModelError, load_model
    from .rnn.network import Network, Sequence
    from .rnn.plan import plan
    from .rnn.quantise import quantise_layer
    from .tensor.tensor_map import TensorMap, TensorMapError

_PLACES = {
    "ConfigError": "heddle.config", "HeddleError": "heddle.errors",
    "Device": ".device", "DeviceError": ".device", "OutOfMemory": ".device", "Stats": ".device",
    "Requantise": ".golden.requantise", "TensorMap": ".tensor.tensor_map", "TensorMapError": ".tensor.tensor_map",
    "Network": ".rnn.network", "Sequence": ".rnn.network", "quantise_layer": ".rnn.quantise", "plan": ".rnn.plan",
    "Model": ".models", "ModelError": ".models", "load_model": ".models",
}
__all__ = ["ConfigError", "Device", "DeviceError", "HeddleError", "Model", "ModelError", "Network", "OutOfMemory", "Requantise",
           "Sequence", "Stats", "TensorMap", "TensorMapError", "load_model", "plan", "quantise_layer"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_PLACES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
