"""Shared modules: components that are elaborated once and instantiated many times.

Amaranth makes a module of its own for every instance of a component. For arrays of equal components, such as PEs, time and text grow
with their number. ``SharedModule`` emits one module and instantiates the module by name.
"""

import gc
import re
from contextlib import contextmanager
from contextvars import ContextVar

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Const, Fragment, Instance, ResetSignal, Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import In

from ..errors import UsageError

__all__ = ["SharedModule", "convert_with_types", "elaborate"]

_types = ContextVar("heddle_types", default=None)


class SharedModule:
    """Component class with parameters, under a module name, for repeated instantiation.

    While Verilog or a netlist is emitted, the first ``instantiate`` elaborates the component. Every ``instantiate`` adds an instance of
    the module. Elsewhere, in Amaranth's simulator or in plain conversion, ``instantiate`` adds an ordinary submodule with the same
    behaviour.

    Parameters
    ----------
    type_name : str
        Name of the module, unique for this class and these parameters.
    component_class : type
        Class of the component, which may use the ``sync`` domain only.
    *arguments, **options
        Arguments of the class; they must be comparable.

    *Errors*: ``UsageError`` where ``type_name`` is not an identifier.
    """

    def __init__(self, type_name, component_class, *arguments, **options):
        if not isinstance(type_name, str) or not type_name.isidentifier():
            raise UsageError(f"type_name must be an identifier, not {type_name!r}")
        self.type_name = type_name
        self._recipe = (component_class, arguments, options)

    def instantiate(self, m, name):
        """Add an instance called ``name`` to module ``m`` and return the object with its ports.

        Only the members of the component's signature may be used, with directions as on the component.

        Raises
        ------
        ValueError
            When another class or other parameters already use the type name.
        """
        types = _types.get()
        component_class, arguments, options = self._recipe
        if types is None:
            component = component_class(*arguments, **options)
            m.submodules[name] = component
            return component
        if self.type_name not in types:
            types[self.type_name] = types.make(self._recipe, self.type_name)
        module_type = types[self.type_name]
        if module_type.recipe != self._recipe:
            raise UsageError(f"type_name must belong to one class and one set of parameters, not {self.type_name!r} twice")
        interface = module_type.signature.create(path=(name,))
        m.submodules[name] = module_type.instance(interface)
        return interface


class _ElaboratedType:
    """Type whose component is elaborated, for what the elaboration does; it has no text, and its instances have no ports."""

    def __init__(self, recipe, type_name):
        component_class, arguments, options = recipe
        component = component_class(*arguments, **options)
        self.recipe = recipe
        self.type_name = type_name
        self.signature = component.signature
        self._make(component)

    def _make(self, component):
        Fragment.get(component, None)

    def instance(self, interface):
        return Instance(self.type_name)


class _Type(_ElaboratedType):
    """Module that exists once: the ports of its component and its RTLIL text."""

    def _make(self, component):
        self.text = _convert(component, self.type_name)
        start = self.text.index(f"\nmodule \\{self.type_name}\n")
        module = self.text[start:self.text.index("\nend\n", start)]
        self.ports = set(re.findall(r"^  wire .*\b(?:input|output) \d+ +(?:signed +)?\\(\S+) *$", module, re.MULTILINE))

    def instance(self, interface):
        connections = {}
        for path, member, value in self.signature.flatten(interface):
            value = Value.cast(value)
            if not isinstance(value, Const):
                connections["__".join(map(str, path))] = ("i_" if member.flow == In else "o_", value)
        for port, signal in (("clk", ClockSignal()), ("rst", ResetSignal(allow_reset_less=True))):
            if port in self.ports:
                connections[port] = ("i_", signal)
        if connections.keys() != self.ports:
            difference = ", ".join(sorted(connections.keys() ^ self.ports))
            raise UsageError(f"{self.type_name} must have the ports of its signature, clk and rst only, not {difference}")
        return Instance(self.type_name, **{prefix + port: value for port, (prefix, value) in connections.items()})


class _Types(dict):
    """Types by name; ``make(recipe, type_name)`` makes one."""

    def __init__(self, make):
        super().__init__()
        self.make = make


def _convert(component, name):
    """RTLIL text of a component. Constant members of a signature, such as ``ready`` of a stream that is always ready, are no ports."""
    ports = {}
    for path, member, value in component.signature.flatten(component):
        value = Value.cast(value)
        if not isinstance(value, Const):
            direction = PortDirection.Input if member.flow == In else PortDirection.Output
            ports["__".join(map(str, path))] = (value, direction)
    return rtlil.convert(component, name=name, ports=ports, emit_src=False)


@contextmanager
def _collected(make):
    """Context in which ``SharedModule`` makes each type once, with ``make``; yields the types by name."""
    types = _Types(make)
    token = _types.set(types)
    try:
        yield types
    finally:
        _types.reset(token)


@contextmanager
def _no_garbage_collection():
    """Context without garbage collection: the objects of a netlist live until its text is written, and scanning them takes half of the
    time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def convert_with_types(component, name):
    """RTLIL texts of a component and of every ``SharedModule`` type below it; the first text holds module ``name``.

    Raises ``ValueError`` when ``name`` is also the name of a type.
    """
    with _no_garbage_collection(), _collected(_Type) as types:
        text = _convert(component, name)
    if name in types:
        raise UsageError(f"name must differ from the type names of its instances, not {name!r}")
    return [text, *(module_type.text for module_type in types.values())]


def elaborate(component):
    """Elaborate a component, and every ``SharedModule`` type below it once, as emission does; nothing is converted to text."""
    with _no_garbage_collection(), _collected(_ElaboratedType):
        Fragment.get(component, None)
