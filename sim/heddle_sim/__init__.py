"""Heddle in software: golden models, assembler, simulated device, kernels and command line."""

from .device import Device, DeviceError, OutOfMemory, Stats
from .golden.requantise import Requantise
from .tensor.tensor_map import TensorMap, TensorMapError

__all__ = ["Device", "DeviceError", "OutOfMemory", "Requantise", "Stats", "TensorMap", "TensorMapError"]
