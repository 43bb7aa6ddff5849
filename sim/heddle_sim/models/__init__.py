"""Networks from files: which of their operators run on the device, and runs of them."""

from .errors import ModelError
from .load import load_model
from .model import Model, ModelResult, NodeResult
from .placement import PlacedNode

__all__ = ["Model", "ModelError", "ModelResult", "NodeResult", "PlacedNode", "load_model"]
