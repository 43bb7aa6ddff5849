"""Passive checkers of the stream rules, for every stream of a design."""

import cocotb
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out
from cocotb.triggers import RisingEdge

from ..agents.stream import StreamHandles
from ..coverage.streams import StreamSampler

__all__ = ["StreamChecker", "check_streams", "input_ports", "streams_of"]


def _ports(signature, prefix=()):
    """Path, member and stream signature (None of a plain signal) of every stream and plain signal of a signature."""
    for name, member in signature.members.items():
        for path in _indices((*prefix, name), member.dimensions):
            if not member.is_signature:
                yield path, member, None
                continue
            # An In member's signature is flipped, and a flipped signature is no instance of the class it came from.
            inner = member.signature if member.flow == Out else member.signature.flip()
            if isinstance(inner, stream.Signature):
                yield path, member, inner
            else:
                yield from _ports(member.signature, path)


def _indices(path, dimensions):
    if not dimensions:
        yield path
    else:
        for index in range(dimensions[0]):
            yield from _indices((*path, index), dimensions[1:])


def streams_of(signature):
    """Every stream of a component's signature as ``(name, payload shape, is input)``, nested and arrayed ones included."""
    return [("__".join(map(str, path)), inner.members["payload"].shape, member.flow == In)
            for path, member, inner in _ports(signature) if inner is not None]


def input_ports(signature):
    """Names of the ports that the outside drives, streams included; constant members of streams are left out."""
    names = []
    for path, member, inner in _ports(signature):
        name = "__".join(map(str, path))
        if inner is None:
            names += [name] if member.flow == In else []
        elif member.flow == In:
            names += [f"{name}__payload"] + ([] if inner.always_valid else [f"{name}__valid"])
        elif not inner.always_ready:
            names.append(f"{name}__ready")
    return names


class StreamChecker:
    """Fails the test when a stream breaks a rule: ``valid`` and ``ready`` are known; under ``valid`` the payload is known, and both
    stay as they are until ``ready``. Nothing is checked during reset. ``transfers`` counts the items that passed; how they came counts for
    the coverage of the stream, where it is declared for ``unit``.
    """

    def __init__(self, dut, name, shape, clock=None, unit=None):
        self.handles = StreamHandles(dut, name, shape)
        self.transfers = 0
        self._clock = dut.clk if clock is None else clock
        self._reset = getattr(dut, "rst", None)
        sampler = StreamSampler(unit, name)
        self._sampler = sampler if sampler.counts else None
        self.task = cocotb.start_soon(self._run())

    def state(self):
        """Present values, for a message."""
        handles = self.handles
        return f"{handles.name}: " + ", ".join(f"{part} {getattr(handles, part).value}" for part in ("valid", "ready", "payload")
                                               if getattr(handles, part) is not None)

    async def _run(self):
        handles, waiting, sampler = self.handles, None, self._sampler
        while True:
            await RisingEdge(self._clock)
            if self._reset is not None and bool(self._reset.value):
                waiting = None
                if sampler:
                    sampler.restart()
                continue
            for part in ("valid", "ready"):
                signal = getattr(handles, part)
                assert signal is None or signal.value.is_resolvable, f"{part} must be known: {self.state()}"
            valid, ready = handles.is_valid(), handles.is_ready()
            if sampler:
                sampler.step(valid, ready)
            assert valid or waiting is None, f"valid must stay until the item is accepted: {self.state()}"
            if not valid:
                continue
            payload = None if handles.payload is None else handles.payload.value
            assert payload is None or payload.is_resolvable, f"payload must be known under valid: {self.state()}"
            bits = 0 if payload is None else int(payload)
            assert waiting in (None, bits), f"payload must stay {waiting:#x} until it is accepted: {self.state()}"
            if ready:
                self.transfers += 1
                waiting = None
            else:
                waiting = bits


def check_streams(dut, signature, clock=None, unit=None):
    """A ``StreamChecker`` on every stream of the design, a ``unit`` of the coverage; returned by stream name."""
    return {name: StreamChecker(dut, name, shape, clock, unit) for name, shape, _ in streams_of(signature)}
