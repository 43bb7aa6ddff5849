"""Table of the methods of a convolution, what each is expected to take, and which one "auto" stands for.

Of equal expectations the first one in the table is taken. A new method is a file of its own, and a line here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heddle.config import Config
from heddle.errors import UsageError

from ..kernels.kernel import Kernel
from ..kernels.parts.fitting import Unfit
from ..kernels.plan_cache import cached_plan
from .compiled_convolution import CompiledMethod
from .convolution_method import ConvolutionLayer, ConvolutionMethod, Expectation
from .depthwise import DepthwiseMethod
from .gathered_convolution import GatheredMethod
from .im2col import Im2colMethod

__all__ = ["METHODS", "NAMES", "chosen_method", "expectations", "fastest_method", "method_of", "names_of"]

METHODS: dict[str, ConvolutionMethod] = {method.name: method for method in (
    CompiledMethod(),
    DepthwiseMethod(),
    GatheredMethod(),
    Im2colMethod(),
)}
NAMES = ("auto", *METHODS)      # of ``method``


def names_of(names: Iterable[str], *others: str) -> str:
    """Names of methods as a message lists them."""
    return " or ".join(f"\"{name}\"" for name in (*names, *others))


def method_of(kernel: Kernel) -> ConvolutionMethod:
    """The method that executes a kernel."""
    return next(method for method in METHODS.values() if isinstance(kernel, method.kernel))


def chosen_method(cfg: Config, layer: ConvolutionLayer, name: str) -> ConvolutionMethod:
    """The method with a name of ``NAMES``. Raises ``UsageError`` where it does not take such a layer."""
    method = METHODS[_automatic(cfg, layer) if name == "auto" else name]
    _check(method, layer)
    return method


def _automatic(cfg: Config, layer: ConvolutionLayer) -> str:
    """Name of the fastest method; where none can do the layer, or only one could, of that which then says why not."""
    suggested = [name for name, method in METHODS.items() if method.suggests(layer)]
    if len(suggested) == 1:
        return suggested[0]
    fastest = cached_plan("method", cfg, layer, lambda: fastest_method(expectations(cfg, layer)))
    general = [name for name in suggested if METHODS[name].general]
    return fastest or general[0 if layer.staged else -1]


def expectations(cfg: Config, layer: ConvolutionLayer) -> dict[str, Expectation]:
    """Of each method by name."""
    found = {}
    for name, method in METHODS.items():
        try:
            _check(method, layer)
            if not method.takes(layer):
                raise UsageError(f"method \"{name}\" must be asked for by name with bias or x_zero_point, which the host adds to its sums")
            found[name] = method.expected(cfg, layer)
        except UsageError as error:
            found[name] = Expectation(why_not=str(error))
        except Unfit as error:
            found[name] = Expectation(why_not=f"{error} is too small")
    return found


def fastest_method(found: Mapping[str, Expectation]) -> str | None:
    """Name of the method with the fewest expected cycles, the first of equals; None where no method can do it. A last resort comes last."""
    possible = [name for name, expectation in found.items() if expectation.problem is not None]
    return min(possible, key=lambda name: (found[name].last_resort, found[name].cycles), default=None)


def _check(method: ConvolutionMethod, layer: ConvolutionLayer) -> None:
    """Raises ``UsageError`` where a method never takes such a layer."""
    if layer.staged and not method.takes(layer):
        able = names_of(name for name, each in METHODS.items() if each.takes(layer))
        what = "with requantise" if layer.addends == 1 else "where w minus w_zero_point has nine bits"
        raise UsageError(f"method must be {able} {what}, not \"{method.name}\"")
    if refusal := method.why_not(layer):
        raise UsageError(refusal)
