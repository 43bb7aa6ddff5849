"""Sampling of devices: an observer of their runs."""

from functools import cache

from heddle.isa.encoding import Opcode
from heddle_sim.device.observers import observe_runs

from . import errors, front_end, matrix, presets

__all__ = ["sample_device_run", "watch_devices"]

_HALT = Opcode.HALT.value


@cache
def _preset(cfg):
    return presets.preset_of(cfg)


@cache
def _samples(words, simulator):
    """The combinations of the instructions of a program: pairs of group and combination."""
    found = []
    for word in words:
        values = front_end.instruction_values(word)
        if values is not None:
            found.append((front_end.INSTRUCTION, front_end.INSTRUCTION.key(**values, place=simulator)))
        if values is not None and values["opcode"] == Opcode.MATRIX.name:
            found.append((matrix.INSTRUCTION, matrix.INSTRUCTION.key(**matrix.instruction_values(word), simulator=simulator)))
    return found


def sample_device_run(cfg, simulator, program, code):
    """Count a run: its error code, or its instructions and the units of the preset that it used.

    Instructions of a program that ended well count although a branch may have left some of them out.
    """
    if code is not None:
        errors.RUN.sample(code=code.name, simulator=simulator)
        return
    words = tuple(program.words)
    for group, key in _samples(words, simulator):
        group.samples[key] += 1
    preset = _preset(cfg)
    if preset is not None:
        presets.sample_run(preset, words, simulator)


def watch_devices():
    """Count the runs of all devices of this process from now on."""
    observe_runs(sample_device_run)
