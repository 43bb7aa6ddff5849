"""Ports between the host's registers, run control, performance counters and the cores."""

from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from ..isa.counter_table import BREAKDOWN, most_in_a_cycle
from ..isa.register_map import ADDRESS_BITS
from .layouts import PC_BITS, error_layout

__all__ = ["REASONS", "CounterPort", "EventPort", "ProgramPort", "ReasonPort", "RegisterAccessPort", "RunPort", "StatusPort",
           "UniformStream", "uniform_write_layout"]

REASONS = tuple(name for name in BREAKDOWN if name != "control")        # ``control``: no other reason holds

uniform_write_layout = data.StructLayout({"index": 6, "value": 32})     # uniform register, and what the host writes to it


def UniformStream():
    """Writes of uniform registers by the host, while no program runs; always ready."""
    return stream.Signature(uniform_write_layout, always_ready=True)


def RegisterAccessPort():
    """Accesses of the host to the control registers, seen from the AXI4-Lite subordinate.

    *Ports*:
    write : Out(1)
        A register is written; high for one cycle per write.
    write_address : Out(ADDRESS_BITS)
        Byte address of the write.
    write_data : Out(32)
        Data of the write.
    read_address : Out(ADDRESS_BITS)
        Byte address of a read; valid for two cycles, longer with ``read_wait``.
    read_data : In(32)
        Register at ``read_address`` of the previous cycle.
    read_wait : In(1)
        The read waits; ``read_data`` is not valid.
    """
    return Signature({
        "write": Out(1), "write_address": Out(ADDRESS_BITS), "write_data": Out(32),
        "read_address": Out(ADDRESS_BITS), "read_data": In(32), "read_wait": In(1),
    })


def StatusPort(cores):
    """State of the last run, seen from run control.

    *Ports*:
    running : Out(1)
        A run is in progress; these cycles are the cycles of the run.
    finished : Out(1)
        The run ends; high in the last cycle of ``running``.
    done : Out(1)
        The last run has ended.
    failed : Out(1)
        The run has an error.
    stuck : Out(1)
        Memory did not answer; the device needs a reset.
    error : Out(error_layout)
        Error of the last run.
    error_core : Out(range(max(cores, 2)))
        Core that reported the error. For TIMEOUT the lowest core whose program has not ended, else the lowest core that is not idle.
    """
    return Signature({
        "running": Out(1), "finished": Out(1), "done": Out(1), "failed": Out(1), "stuck": Out(1), "error": Out(error_layout),
        "error_core": Out(range(max(cores, 2))),
    })


def CounterPort(counters):
    """Read port of the performance counters, seen from the reader.

    *Ports*:
    index : Out(range(counters))
        Counter to read, in the order of ``heddle.isa.register_map.counter_addresses``.
    value : In(32)
        Counter at ``index`` of the previous cycle, registered; exact with ``settled``.
    settled : In(1)
        All counts have reached the memory.
    """
    return Signature({"index": Out(range(counters)), "value": In(32), "settled": In(1)})


def EventPort(names, cores=1):
    """Increments of performance counters in this cycle, the sum over ``cores``, seen from the unit that counts.

    *Ports*:
    <name> : Out(range(cores * most_in_a_cycle(name) + 1))
        For each of ``names``.
    """
    return Signature({name: Out(range(cores * most_in_a_cycle(name) + 1)) for name in names})


def ReasonPort():
    """Reasons of the cycle breakdown that hold in this cycle, seen from the core.

    *Ports*:
    <reason> : Out(1)
        For each of ``REASONS``.
    """
    return Signature({name: Out(1) for name in REASONS})


def ProgramPort(cfg):
    """Program of all cores, seen from the control registers; constant during a run.

    *Ports*:
    entry : Out(program_counter_bits)
        First instruction of a run.
    end : Out(program_counter_bits + 1)
        Number of the first instruction after the program; later instructions are void. Constant from two cycles before a run.
    """
    return Signature({"entry": Out(cfg.program_counter_bits), "end": Out(cfg.program_counter_bits + 1)})


def RunPort():
    """Run of one core, seen from run control.

    *Ports*:
    start : Out(1)
        Begin a run; high for one cycle.
    stop : Out(1)
        End the run at the next instruction; units discard queued operations and complete outstanding accesses.
    ended : In(1)
        The program has ended.
    idle : In(1)
        No program is active, no unit has work in flight, and every write is acknowledged.
    pc : In(PC_BITS)
        Number of the instruction at issue, or of the last one issued: the place of TIMEOUT.
    """
    return Signature({"start": Out(1), "stop": Out(1), "ended": In(1), "idle": In(1), "pc": In(PC_BITS)})
