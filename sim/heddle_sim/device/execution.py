"""Execution of a kernel's launches on a device."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from .observers import report_kernel
from .recording import executing

if TYPE_CHECKING:
    from ..kernels.kernel import Kernel
    from .host import Host
    from .stats import Stats

__all__ = ["execute"]


def execute(device: Host, kernel: Kernel, operands: Any = None) -> Stats:
    """Run the launches of a ``Kernel`` one after the other, with ``operands`` at their addresses in global memory.

    Returns ``Stats``, added up over the launches that count.
    """
    report_kernel(kernel)
    runs = []
    for launch in kernel.launches(operands):
        with executing(kernel, launch.counted):
            runs.append((launch.counted, device.run(launch.program, launch.uniform, launch.macs, launch.element_bytes)))
    return reduce(add, (stats for counted, stats in runs if counted))
