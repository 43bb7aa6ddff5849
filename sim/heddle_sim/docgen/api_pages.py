"""Pages of the public names, for autodoc: what ``heddle`` and ``heddle_sim`` give, and the component of each unit."""

import importlib
import inspect

from heddle.units import unit_names

__all__ = ["api_pages"]

# Page: its title, and modules whose ``__all__`` stands on it.
_MODULES = {
    "heddle": ("heddle: configuration and hardware", ("heddle", "heddle.emit")),
    "heddle_fpga": ("heddle_fpga: synthesis and routing", ("heddle_fpga",)),
    "heddle_sim": ("heddle_sim: device, networks, tensors", ("heddle_sim",)),
    "isa": ("heddle_sim.isa: assembler and disassembler", ("heddle_sim.isa",)),
    "models": ("heddle_sim.models: networks from files", ("heddle_sim.models",)),
    "formats": ("Sparse matrices and compiled offsets", ("heddle_sim.sparse", "heddle_sim.compiled")),
    "results": ("Results and problems", ("heddle_sim.device.results", "heddle_sim.kernels.problem")),
}
# Components of ``make_unit`` and further ones that the pages of the units name.
_UNITS = (
    "heddle.core.Core", "heddle.front_end.unit.FrontEnd", "heddle.front_end.issue.Issue", "heddle.front_end.scoreboard.Scoreboard",
    "heddle.thread.unit.ThreadUnit", "heddle.thread.alu.Alu", "heddle.thread.offset_fetch.OffsetFetch", "heddle.matrix.unit.MatrixUnit",
    "heddle.matrix.loop_sequencer.LoopSequencer", "heddle.matrix.b_fetch.BFetch", "heddle.matrix.broadcast_network.BroadcastNetwork",
    "heddle.datapath.pe_array.PEArray", "heddle.memory.barriers.Barriers", "heddle.memory.global_arbiter.GlobalArbiter",
    "heddle.memory.axi_master.AxiMaster", "heddle.tmau.request_generator.RequestGenerator", "heddle.tmau.multicast_network.MulticastNetwork",
    "heddle.l2.reduction_unit.ReductionUnit", "heddle.rnn.engine.RecurrentEngine", "heddle.rnn.tail.Tail",
    "heddle.sparse.engine.SparseEngine", "heddle.control.axi_lite.AxiLite", "heddle.control.control_registers.ControlRegisters",
    "heddle.control.run_control.RunControl", "heddle.control.performance_counters.PerformanceCounters",
)


def api_pages() -> dict[str, str]:
    """Name of each page below ``api/`` and its text, with directives of autodoc."""
    seen: set[int] = set()
    pages = {name: f"# {title}\n\n" + "".join(_module(module, seen) for module in modules) for name, (title, modules) in _MODULES.items()}
    units = ", ".join(f"`{name}`" for name in unit_names())
    pages["units"] = ("# Components of the units\n\n"
                      f"`make_unit(name, cfg)` makes them by name, `heddle generate --unit NAME` writes their Verilog: {units}.\n\n"
                      + "".join(_directive("class", "", path) for path in _UNITS))
    return pages


def _module(name: str, seen: set[int]) -> str:
    module = importlib.import_module(name)
    text = inspect.getdoc(module) or ""
    parts = [f"## `{name}`\n\n{text.replace('``', '`')}\n\n"]
    for member in sorted(module.__all__, key=str.lower):
        value = getattr(module, member)
        if id(value) in seen or isinstance(value, str | tuple | dict | int):
            continue
        seen.add(id(value))
        parts.append(_directive(*_kind(value), f"{name}.{member}"))
    return "".join(parts)


def _kind(value: object) -> tuple[str, str]:
    if not inspect.isclass(value):
        return "function", ""
    if issubclass(value, BaseException):
        return "exception", ""
    hardware = value.__module__.startswith("heddle.") and hasattr(value, "elaborate")
    return "class", "" if hardware else ":members:\n:inherited-members: object, tuple, Exception, Component\n"


def _directive(kind: str, options: str, path: str) -> str:
    return f"```{{eval-rst}}\n.. auto{kind}:: {path}\n" + "".join(f"   {line}\n" for line in options.splitlines()) + "```\n\n"
