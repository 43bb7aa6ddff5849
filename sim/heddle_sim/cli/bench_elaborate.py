"""Time of generating Verilog."""

import time
from typing import Any

from heddle.config import Config
from heddle.emit import emit_verilog
from heddle.units import make_unit

__all__ = ["elaborate_row"]


def elaborate_row(cfg: Config, unit: str) -> dict[str, Any]:
    """Generates a unit, not from any cache; a row with ``elaborate_seconds``, ``verilog_bytes`` and ``modules``."""
    start = time.perf_counter()
    text = emit_verilog(make_unit(unit, cfg), name=unit)
    seconds = time.perf_counter() - start
    modules = sum(line.startswith("module ") for line in text.splitlines())
    return {"unit": unit, "elaborate_seconds": seconds, "verilog_bytes": len(text), "modules": modules}
