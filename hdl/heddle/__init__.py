"""Heddle: an open tensor core, generated from parameters (hardware only; see ``heddle_sim`` to run it).

Its units stand alone too: ``from heddle import L2`` gives a component of Amaranth; ``examples/units/`` simulates each of them.
Names of hardware are imported when they are first used, so that what needs a ``Config`` only starts at once.
"""

import importlib
from typing import TYPE_CHECKING

from .config import Config, ConfigError, load_config
from .errors import HeddleError

if TYPE_CHECKING:       # the same names as in the table, for type checkers and editors
    from .datapath.cat_tree import CatTree
    from .datapath.pe import PE
    from .datapath.reduction_tree import ReductionTree
    from .emit import emit_verilog
    from .interfaces.swizzle import exchange_of, swizzle, swizzle_field, swizzles
    from .isa.encoding import Space, Swizzle
    from .l2.unit import L2
    from .lib.adder_tree import AdderTree
    from .lib.register_slice import RegisterSlice, SliceMode
    from .lib.round_robin import RoundRobinArbiter
    from .lib.stream import Queue, link
    from .memory.shared_memory import SharedMemory
    from .tmau.unit import Tmau
    from .top import Top
    from .units import make_unit, unit_names

_PLACES = {
    "PE": ".datapath.pe", "CatTree": ".datapath.cat_tree", "ReductionTree": ".datapath.reduction_tree",
    "Tmau": ".tmau.unit", "exchange_of": ".interfaces.swizzle", "swizzle": ".interfaces.swizzle", "swizzle_field": ".interfaces.swizzle",
    "swizzles": ".interfaces.swizzle", "L2": ".l2.unit", "SharedMemory": ".memory.shared_memory", "Top": ".top",
    "AdderTree": ".lib.adder_tree", "RegisterSlice": ".lib.register_slice", "SliceMode": ".lib.register_slice", "Queue": ".lib.stream",
    "link": ".lib.stream", "RoundRobinArbiter": ".lib.round_robin",
    "Space": ".isa.encoding", "Swizzle": ".isa.encoding", "emit_verilog": ".emit", "make_unit": ".units", "unit_names": ".units",
}
__all__ = ["AdderTree", "CatTree", "Config", "ConfigError", "HeddleError", "L2", "PE", "Queue", "ReductionTree", "RegisterSlice",
           "RoundRobinArbiter", "SharedMemory", "SliceMode", "Space", "Swizzle", "Tmau", "Top", "emit_verilog", "exchange_of", "link",
           "load_config", "make_unit", "swizzle", "swizzle_field", "swizzles", "unit_names"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_PLACES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
