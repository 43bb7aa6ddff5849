"""Statically compiled representation of a convolution: where each thread finds its elements of x, made before the run [S2]."""

from .geometry import Geometry
from .layout import LAYOUTS, ImageLayout
from .order import line_fetches
from .representation import Representation, compile_convolution

__all__ = ["LAYOUTS", "Geometry", "ImageLayout", "Representation", "compile_convolution", "line_fetches"]
