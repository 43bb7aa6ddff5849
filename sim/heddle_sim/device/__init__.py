"""The device: programs and matrix products on simulated hardware, or on the functional simulator."""

from .device import Device
from .errors import DeviceError, OutOfMemory
from .stats import Stats

__all__ = ["Device", "DeviceError", "OutOfMemory", "Stats"]
