"""Passive checkers of the stream rules, for every stream of a design."""

import cocotb
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out
from cocotb.triggers import RisingEdge

from ..agents.stream import BundleHandles, StreamHandles
from ..coverage.streams import StreamSampler

__all__ = ["StreamChecker", "bundles_of", "check_streams", "checkers_of", "input_ports", "run_checkers", "streams_of"]


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


def _interfaces(signature, prefix=()):
    """Path and plain members of the signature itself and of every interface in it that is no stream: name to flow and paths."""
    plain = {}
    for name, member in signature.members.items():
        paths = list(_indices((*prefix, name), member.dimensions))
        if not member.is_signature:
            plain[name] = member.flow, paths
        elif not isinstance(member.signature if member.flow == Out else member.signature.flip(), stream.Signature):
            for path in paths:
                yield from _interfaces(member.signature, path)
    yield prefix, plain


def bundles_of(signature):
    """Every stream of a component's signature whose payload is several signals, as ``(name, valid, ready, parts)``, names of ports.

    That is an interface with a member ``valid``, with or without ``ready``. It is also, as in AXI, members ``<name>valid`` and
    ``<name>ready`` of an interface or of the component, with what else begins with ``<name>``. ``valid`` and ``ready`` of the component
    itself are not looked at: nothing says what is their payload.
    """
    found = []
    for prefix, plain in _interfaces(signature):
        def port(*path, prefix=prefix):
            return "__".join(map(str, (*prefix, *path)))

        for valid, (flow, _) in plain.items():
            stem = valid.removesuffix("valid")
            ready = f"{stem}ready" if f"{stem}ready" in plain else None
            if stem == valid or not (prefix or stem) or (stem and ready is None):
                continue
            parts = ["__".join(map(str, path)) for name, (its, paths) in plain.items()
                     if name.startswith(stem) and name != valid and its == flow for path in paths]
            found.append((port(*([stem] if stem else [])), port(valid), port(ready) if ready else None, parts))
    return found


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
    stay as they are until ``ready``. ``transfers`` counts the items that passed; how they came counts for the coverage of the stream, where
    it is declared for ``unit``.
    """

    def __init__(self, handles, unit=None):
        self.handles = handles
        self.transfers = 0
        self._waiting = None
        sampler = StreamSampler(unit, handles.name)
        self._sampler = sampler if sampler.counts else None

    def state(self):
        """Present values, for a message."""
        handles = self.handles
        parts = [("valid", handles.valid), ("ready", handles.ready), *(("payload", part) for part in handles.parts)]
        return f"{handles.name}: " + ", ".join(f"{name} {handle.value}" for name, handle in parts if handle is not None)

    @property
    def held(self):
        """In the last cycle an item was offered and not accepted."""
        return self._waiting is not None

    def restart(self):
        """A reset: nothing that was before counts."""
        self._waiting = None
        if self._sampler:
            self._sampler.restart()

    def step(self):
        """Look at a cycle; at the clock edge that ends it, outside of reset."""
        handles = self.handles
        try:
            valid = handles.is_valid()
            ready = handles.is_ready()
        except ValueError:
            raise AssertionError(f"valid and ready must be known: {self.state()}") from None
        if self._sampler:
            self._sampler.step(valid, ready)
        assert valid or self._waiting is None, f"valid must stay until the item is accepted: {self.state()}"
        if not valid:
            return
        try:
            bits = handles.bits()
        except ValueError:
            raise AssertionError(f"payload must be known under valid: {self.state()}") from None
        assert self._waiting in (None, bits), f"payload must stay {self._waiting:#x} until it is accepted: {self.state()}"
        self.transfers += ready
        self._waiting = None if ready else bits


def checkers_of(dut, signature, unit=None):
    """A ``StreamChecker`` for every stream of the design, a ``unit`` of the coverage; by stream name."""
    handles = [StreamHandles(dut, name, shape) for name, shape, _ in streams_of(signature)]
    for name, valid, ready, parts in bundles_of(signature):
        handles.append(BundleHandles(name, getattr(dut, valid, None), getattr(dut, ready, None) if ready else None,
                                     [getattr(dut, part) for part in parts if hasattr(dut, part)]))
    return {each.name: StreamChecker(each, unit) for each in handles}


async def run_checkers(dut, checkers, on_cycle=None):
    """Step all checkers (a collection, looked at in every cycle) at every clock edge, for ever; ``on_cycle()`` is called after that."""
    reset = getattr(dut, "rst", None)
    while True:
        await RisingEdge(dut.clk)
        in_reset = reset is not None and bool(reset.value)
        for checker in checkers:
            if in_reset:
                checker.restart()
            else:
                checker.step()
        if on_cycle is not None:
            on_cycle()


def check_streams(dut, signature, unit=None):
    """Run a ``StreamChecker`` on every stream of the design, a ``unit`` of the coverage; returned by stream name."""
    checkers = checkers_of(dut, signature, unit)
    cocotb.start_soon(run_checkers(dut, checkers.values()))
    return checkers
