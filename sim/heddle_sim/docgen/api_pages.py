"""Pages of the public names, for autodoc: what ``heddle`` and ``heddle_sim`` give, and the components of each unit."""

import importlib
import inspect

__all__ = ["api_pages", "unit_sections"]

# Page: its title, and modules whose ``__all__`` stands on it.
_MODULES = {
    "heddle": ("heddle: configuration and hardware", ("heddle", "heddle.emit")),
    "heddle_fpga": ("heddle_fpga: synthesis and routing", ("heddle_fpga",)),
    "heddle_sim": ("heddle_sim: device, networks, tensors", ("heddle_sim",)),
    "isa": ("heddle_sim.isa: assembler and disassembler", ("heddle_sim.isa",)),
    "models": ("heddle_sim.models: networks from files", ("heddle_sim.models",)),
    "formats": ("Sparse matrices and compiled offsets", ("heddle_sim.sparse", "heddle_sim.compiled")),
    "results": ("Results, problems, simulated memory",
                ("heddle_sim.device.results", "heddle_sim.kernels.problem", "heddle_sim.backends.verilator_device")),
}
# Page of a unit, and the components whose contracts stand at its end.
_UNITS = {
    "streams": (),
    "control": ("control.axi_lite.AxiLite", "control.control_registers.ControlRegisters", "control.run_control.RunControl",
                "control.performance_counters.PerformanceCounters"),
    "front_end": ("front_end.unit.FrontEnd", "front_end.instruction_fetch.InstructionFetch", "front_end.operand_read.OperandRead",
                  "front_end.decode.Decode", "front_end.issue.Issue", "front_end.issue_queue.IssueQueue", "front_end.scoreboard.Scoreboard",
                  "front_end.uniform_state.UniformState"),
    "thread": ("thread.unit.ThreadUnit", "thread.operand_fetch.OperandFetch", "thread.execute.Execute", "lib.alu.Alu",
               "thread.shared_lsu.SharedLsu", "thread.global_lsu.GlobalLsu", "thread.offset_fetch.OffsetFetch",
               "thread.write_back.WriteBack"),
    "matrix": ("matrix.unit.MatrixUnit", "matrix.loop_sequencer.LoopSequencer", "matrix.b_fetch.BFetch",
               "matrix.broadcast_network.BroadcastNetwork", "datapath.pe_array.PEArray"),
    "shared_memory": ("memory.barriers.Barriers",),
    "tmau": ("tmau.request_generator.RequestGenerator", "tmau.multicast_network.MulticastNetwork"),
    "l2": ("l2.reduction_unit.ReductionUnit",),
    "axi": ("memory.global_arbiter.GlobalArbiter", "memory.axi_master.AxiMaster"),
    "rnn": ("rnn.recurrent_engine.RecurrentEngine", "rnn.tail.Tail", "rnn.context_arbiter.ContextArbiter"),
    "sparse": ("sparse.sparse_engine.SparseEngine", "sparse.element_window.ElementWindow"),
}
# Public components of these pages, which stand on the page of ``heddle``.
_PUBLIC = {"streams": "`RegisterSlice`, `Queue`, `link`, `RoundRobinArbiter`", "matrix": "`PE`, `ReductionTree`, `CatTree`, `AdderTree`",
           "shared_memory": "`SharedMemory`", "tmau": "`Tmau`", "l2": "`L2`"}


def unit_sections() -> dict[str, str]:
    """Page below ``units/`` and its last section: ports and contract of its components."""
    sections = {}
    for page, paths in _UNITS.items():
        public = f"{_PUBLIC[page]}: see [heddle](../api/heddle.md).\n\n" if page in _PUBLIC else ""
        sections[page] = "\n## Components\n\n" + public + "".join(_directive("class", "", f"heddle.{path}") for path in paths)
    return sections


def api_pages() -> dict[str, str]:
    """Name of each page below ``api/`` and its text, with directives of autodoc."""
    seen: set[int] = set()
    return {name: f"# {title}\n\n" + "".join(_module(module, seen) for module in modules) for name, (title, modules) in _MODULES.items()}


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
