"""Resource variables of TFLite: state of a network that is kept between calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .host_call import HostCall, as_integers

__all__ = ["STATES", "Variables"]


class Variables:
    """Values of variables by their handles, and the subgraphs that have been called to initialise them."""

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}
        self.initialised: set[int] = set()

    def handle(self, call: HostCall) -> list[np.ndarray]:
        """VAR_HANDLE: the name of a variable, as an array of objects that are all this name."""
        container, name = (call.get(field, b"") or b"" for field in ("container", "shared_name"))
        return [np.full(call.result().shape, f"{container!r} {name!r}", np.object_)]

    def assign(self, call: HostCall) -> list[np.ndarray]:
        """ASSIGN_VARIABLE."""
        self.values[_name(call)] = np.array(call.raw(1))
        return []

    def read(self, call: HostCall) -> list[np.ndarray]:
        """READ_VARIABLE: real zero where nothing was assigned."""
        result = call.result()
        found = self.values.get(_name(call))
        return [as_integers(result, np.zeros(result.shape)) if found is None else found.copy()]


def _name(call: HostCall) -> str:
    """The variable that operand 0 is the handle of."""
    return str(call.raw(0).ravel()[0])


STATES: dict[str, Callable[[Variables, HostCall], list[np.ndarray]]] = {
    "VAR_HANDLE": Variables.handle, "ASSIGN_VARIABLE": Variables.assign, "READ_VARIABLE": Variables.read,
}
