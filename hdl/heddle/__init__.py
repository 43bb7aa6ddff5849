"""Heddle: an open tensor core, generated from parameters (hardware only; see ``heddle_sim`` to run it).

Its units stand alone too: ``from heddle import L2`` gives a component of Amaranth; ``examples/units/`` simulates each of them.
Names of hardware are imported when they are first used, so that what needs a ``Config`` only starts at once.
"""

import importlib

from .config import Config, ConfigError, load_config

_PLACES = {
    "PE": "datapath.pe", "CatTree": "datapath.cat_tree", "ReductionTree": "datapath.reduction_tree",
    "Tmau": "tmau.unit", "exchange_of": "interfaces.swizzle", "swizzle": "interfaces.swizzle", "swizzle_field": "interfaces.swizzle",
    "swizzles": "interfaces.swizzle", "L2": "l2.unit", "SharedMemory": "memory.shared_memory", "Top": "top",
    "AdderTree": "lib.adder_tree", "RegisterSlice": "lib.register_slice", "SliceMode": "lib.register_slice", "Queue": "lib.stream",
    "link": "lib.stream", "RoundRobinArbiter": "lib.round_robin",
    "Space": "isa.encoding", "Swizzle": "isa.encoding", "emit_verilog": "emit", "make_unit": "units", "unit_names": "units",
}
__all__ = ["Config", "ConfigError", "load_config"]
__all__ += _PLACES


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
