"""Roofline of layers as a picture, inline SVG by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence

from heddle.config import Config

from ..packages import needed
from .figures import LayerFigures

__all__ = ["roofline"]

_DEVICE, _ROOF, _WHOLE = "#2b6cb0", "#444444", "#c05621"


def roofline(cfg: Config, layers: Sequence[LayerFigures], whole: LayerFigures, peak: int) -> str:
    """An SVG element: multiply-accumulates a cycle of each layer over those for each byte on the bus, below what the configuration can do.

    ``peak``: multiply-accumulates a cycle of all multipliers. Raises ``MissingPackage`` without matplotlib.
    """
    needed("matplotlib", "the roofline of a report", "report")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    points = [layer for layer in layers if layer.macs and layer.intensity]
    slope = cfg.axi_bytes * cfg.cores
    ridge = peak / slope
    least = min([ridge, *(layer.intensity for layer in points)]) / 2
    most = max([ridge, *(layer.intensity for layer in points)]) * 2
    with rc_context({"svg.hashsalt": "heddle", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8, 4.2))
        axes = figure.add_subplot()
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.plot([least, ridge, most], [least * slope, peak, peak], color=_ROOF, linewidth=1.5)
        axes.annotate(f"{peak:,} multiply-accumulates a cycle", (most, peak), ha="right", va="bottom", color=_ROOF)
        axes.annotate(f"bus: {slope} bytes a cycle", (least, least * slope), ha="left", va="top", color=_ROOF, xytext=(12, 0),
                      textcoords="offset points")
        for number, layer in enumerate(layers):
            if layer in points:
                axes.plot(layer.intensity, layer.macs / layer.cycles, "o", color=_DEVICE, markersize=5)
                axes.annotate(str(number), (layer.intensity, layer.macs / layer.cycles), xytext=(4, 3), textcoords="offset points")
        if whole.macs and whole.intensity:
            axes.plot(whole.intensity, whole.macs / whole.cycles, "D", color=_WHOLE, markersize=7, label="all layers")
            axes.legend(loc="lower right", frameon=False)
        axes.set_xlabel("multiply-accumulates for each byte on the bus (its busier direction)")
        axes.set_ylabel("multiply-accumulates a cycle")
        axes.grid(True, color="#eeeeee")
        figure.tight_layout()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    found = text.getvalue()
    return found[found.index("<svg"):]
