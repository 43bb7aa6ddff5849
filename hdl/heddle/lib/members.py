"""Connection of members that two components share by name."""

from types import SimpleNamespace

from amaranth.hdl import Value
from amaranth.lib.wiring import ConnectionError, Signature, connect

__all__ = ["connect_members", "leaves"]


def connect_members(m, first, second, names):
    """Connection of the members called ``names`` of two components, checked: direction, width, dimensions and initial value.

    It is ``amaranth.lib.wiring.connect`` for a part of their signatures. Inside a component, ``flipped(self)`` stands for its
    own members.

    Parameters
    ----------
    m : Module
    first, second : wiring.Component or interface
    names : iterable of str
        Members of both, in the order in which they are connected.

    Raises
    ------
    SignatureError
        When a name is not that of a member of both.
    ConnectionError
        When two members of a name do not fit each other.
    """
    for name in names:
        dimensions = [component.signature.members[name].dimensions for component in (first, second)]
        if dimensions[0] != dimensions[1]:
            raise ConnectionError(f"members called {name!r} must have the same dimensions, not {dimensions[0]} and {dimensions[1]}")
        connect(m, *(_part(component, name) for component in (first, second)))


def _part(component, name):
    """An interface that has one member of a component."""
    return SimpleNamespace(**{"signature": Signature({name: component.signature.members[name]}), name: getattr(component, name)})


def leaves(value):
    """Values of a member of an interface, one after the other whatever its dimensions."""
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(each)]
    return [Value.cast(value)]
