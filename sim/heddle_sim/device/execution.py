"""Execution of a kernel's launches on a device."""

from functools import reduce
from operator import add

__all__ = ["execute"]


def execute(device, kernel, operands=None):
    """Run the launches of a ``Kernel`` one after the other, with ``operands`` at their addresses in global memory.

    Returns ``Stats``, added up over the launches that count.
    """
    runs = [(launch.counted, device.run(launch.program, launch.uniform, launch.macs, launch.element_bytes))
            for launch in kernel.launches(operands)]
    return reduce(add, (stats for counted, stats in runs if counted))
