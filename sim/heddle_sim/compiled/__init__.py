"""Statically compiled representation of a convolution: where each thread finds its elements of x, made before the run [S2]."""

import importlib

_PLACES = {
    "Geometry": "geometry", "ImageLayout": "layout", "LAYOUTS": "layout", "Representation": "representation", "compile_convolution":
    "representation", "line_fetches": "order",
}
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    return value
