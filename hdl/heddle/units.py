"""Units by name, for command line and tests: components that can be emitted, linted and synthesised alone."""

from .config import ConfigError

__all__ = ["unit_names", "unit_config", "make_unit"]

# Names of units before they had the field's terms (docs/decisions/0006-names.md); still accepted.
FORMER = {"matrix_fetch": "b_fetch", "lane_array": "pe_array", "lane": "pe", "copy_unit": "tmau_preset", "level2": "l2",
          "tensor_generator": "request_generator", "reducer": "reduction_unit", "counters": "performance_counters"}

# Parameters that a unit alone has instead of those of the configuration, which may lack the unit.
CHANGES = {
    "offset_fetch": {"compiled_offsets": 1024, "thread_slots": 8, "gather_offsets": True},     # the memory of 1,024 entries that base has
    "tmau": {"l2_kib": 0, "reductions": False, "reduction_floats": False, "tensors": True, "tensor_floats": False,
             "copy_within": False},     # the configuration with an area target
    "rnn": {"rnn": True},
    "rnn_tail": {"rnn": True},
    "sparse_engine": {"rnn": True, "sparse": True, "thread_slots": 8, "shared_writes": 8},
}


def _units():
    # Imported on demand: the command line starts without loading the hardware.
    from .control.control_registers import ControlRegisters
    from .control.performance_counters import PerformanceCounters
    from .control.tile_scheduler import TileScheduler
    from .core import Core
    from .datapath.pe import PE
    from .datapath.pe_array import PEArray
    from .front_end.unit import FrontEnd
    from .interfaces.layouts import read_request_layout
    from .l2.reduction_unit import ReductionUnit
    from .l2.unit import L2
    from .lib.alu import Alu
    from .lib.round_robin import RoundRobinArbiter
    from .matrix.b_fetch import BFetch
    from .matrix.unit import MatrixUnit
    from .memory.axi_master import AxiMaster
    from .memory.barriers import Barriers
    from .memory.global_arbiter import GlobalArbiter
    from .memory.shared_memory import SharedMemory
    from .rnn.recurrent_engine import RecurrentEngine
    from .rnn.tail import Tail
    from .sparse.sparse_engine import SparseEngine
    from .thread.offset_fetch import OffsetFetch
    from .thread.unit import ThreadUnit
    from .tmau.multicast_network import MulticastNetwork
    from .tmau.request_generator import RequestGenerator
    from .tmau.unit import Tmau
    from .top import Top
    return {
        "heddle": Top, "core": Core, "front_end": FrontEnd, "thread_unit": ThreadUnit, "alu": lambda cfg: Alu(),
        "offset_fetch": OffsetFetch, "matrix_unit": MatrixUnit, "b_fetch": BFetch, "pe_array": PEArray, "pe": PE,
        "request_generator": RequestGenerator, "tmau_preset": Tmau, "tmau": Tmau,
        "shared_memory": lambda cfg: SharedMemory(cfg, readers=3, writers=2), "barriers": Barriers, "arbiter": GlobalArbiter,
        "rnn": RecurrentEngine, "rnn_tail": Tail, "sparse_engine": SparseEngine,
        "axi_master": AxiMaster, "l2": L2, "reduction_unit": ReductionUnit, "multicast": MulticastNetwork,
        "tile_scheduler": lambda cfg: TileScheduler(cfg.cores),
        "control_registers": ControlRegisters, "performance_counters": lambda cfg: PerformanceCounters(cfg.cores),
        # Of read requests: as many inputs as cores, at least the two of a core.
        "round_robin_arbiter": lambda cfg: RoundRobinArbiter(read_request_layout(cfg, cfg.tag_bits), max(2, cfg.cores)),
    }


def unit_names():
    """Names that ``make_unit`` accepts; ``heddle`` is the complete device."""
    return sorted(_units())


def unit_config(name, cfg):
    """The configuration of the component that ``make_unit`` gives: ``cfg`` with the changes of the unit.

    Raises ``ConfigError`` for an unknown name, and where the changes do not go with the other parameters. The multicast network needs
    ``multicast``.
    """
    name = _unit(name)[0]
    if name == "multicast" and not cfg.multicast:
        raise ConfigError("multicast must be true for unit multicast, not False")
    return cfg.replace(**CHANGES.get(name, {}))


def make_unit(name, cfg):
    """The component called ``name`` for a configuration, with ``unit_config``. Raises ``ConfigError`` as that does."""
    return _unit(name)[1](unit_config(name, cfg))


def _unit(name):
    """Present name of a unit, and what makes it."""
    units, name = _units(), FORMER.get(name, name)
    if name not in units:
        raise ConfigError(f"unit must be one of {', '.join(sorted(units))}, not {name!r}")
    return name, units[name]
