"""What would help a network: the greatest losses of its layers, each with what lowers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heddle.config import Config

from .figures import LayerFigures

__all__ = ["Advice", "advice"]

_LEAST = 0.02           # of the cycles of the network: less is not worth a line
_MOST = 8               # lines


class Advice(NamedTuple):
    """A loss of a layer: its cycles, their share of the network, and a sentence on what lowers it."""

    layer: str
    loss: str
    cycles: float
    share: float
    text: str


def advice(cfg: Config, layers: Sequence[LayerFigures]) -> list[Advice]:
    """The greatest losses of all layers, the greatest first."""
    total = sum(layer.cycles for layer in layers)
    found = [Advice(layer.name, loss, cycles, cycles / total, _text(cfg, layer, loss))
             for layer in layers for loss, cycles in layer.losses.items() if total and cycles >= _LEAST * total]
    return sorted(found, key=lambda one: -one.cycles)[:_MOST]


def _text(cfg: Config, layer: LayerFigures, loss: str) -> str:
    if loss == "unfilled" and not layer.macs:
        return "its sums are products with ones and zeros, which no shape of it fills"
    if loss == "unfilled":
        filled = layer.ideal / (layer.ideal + layer.losses[loss])
        return (f"{100 * filled:.0f} % of the multipliers have an operand in a step: filters in multiples of {cfg.threads} and channels in "
                f"multiples of {cfg.dot} fill them; depthwise layers cannot")
    if loss == "pipeline":
        return "steps wait for their operands: more pixels or rows for each load of weights make longer runs of steps"
    if loss == "bus":
        return (f"the bus of {8 * cfg.axi_bytes} bits is busy: wider (axi_data_bits), or more products for each byte, as with more images "
                "for the same weights")
    if loss == "copies":
        return "the program waits for the first bytes: a memory with less latency, or more shared memory to copy the next part earlier"
    if loss == "threads":
        return "results leave through the thread unit: fewer results for each product (more channels), or a wider one (threads)"
    if loss == "control":
        return f"uniform instructions of {layer.runs} {'run' if layer.runs == 1 else 'runs'}: fewer and larger runs"
    return "the end of a run waits for its last stores: fewer and larger runs"
