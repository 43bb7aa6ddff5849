"""Published and measured areas of units of other projects, to stand beside ours."""

from typing import Any

__all__ = ["BEST_UTILIZATION", "DEEPBENCH_PEERS", "peers"]

PEERS = {
    ("tmau", "xilinx"): {
        "unit": "DXA of Vortex (no im2col, swizzle, reductions, fill below or element strides)", "lut": 13148, "ff": 5624, "dsp": 7,
        "bram": 12.5, "fmax_mhz": 301.6,
        "source": "published by the project for a Xilinx Alveo U55C, placed and routed: github.com/vortexgpgpu/vortex, documents "
                  "at 0437db35",
    },
    ("tmau", "ecp5"): {
        "unit": "4-D DMA of iDMA (32-bit data and addresses, 3 requests under way; no tiles, fill or im2col)", "lut": 1659, "carry": 175,
        "ff": 832, "dsp": 0, "bram": 0, "fmax_mhz": 55.9,
        "source": "measured by us with Yosys and nextpnr: github.com/pulp-platform/iDMA at 7c856eab, nd_midend and AXI backend",
    },
}


def peers(unit: str, target: str) -> list[dict[str, Any]]:
    """Rows (``unit lut ff dsp … source``) of comparable units elsewhere; a figure that is not known is missing."""
    row = PEERS.get((unit, target))
    return [row] if row else []


_BRAINWAVE = "published for Brainwave on a Stratix 10 280 (ISCA 2018), 250 MHz, batch 1; latency, from which the utilization follows"


def _brainwave(cell: str, hidden: int, steps: int, utilization: float) -> dict[str, Any]:
    return {"cell": cell, "hidden": hidden, "steps": steps, "peer": "Brainwave", "multipliers": 96_000, "utilization": utilization,
            "source": _BRAINWAVE}


# Recurrent layers of DeepBench on another accelerator: multipliers, and which part of their operations were of use.
DEEPBENCH_PEERS = (
    _brainwave("lstm", 256, 150, 0.008), _brainwave("lstm", 512, 25, 0.028), _brainwave("lstm", 1024, 25, 0.118),
    _brainwave("lstm", 1536, 50, 0.271), _brainwave("lstm", 2048, 25, 0.471),
    _brainwave("gru", 512, 1, 0.005), _brainwave("gru", 1024, 1500, 0.104), _brainwave("gru", 1536, 375, 0.233),
    _brainwave("gru", 2048, 375, 0.412), _brainwave("gru", 2560, 375, 0.618), _brainwave("gru", 2816, 750, 0.748),
)

# The best utilization published for a recurrent layer.
BEST_UTILIZATION = {
    "peer": "best published, batch 6", "utilization": 0.803,
    "source": "published for the NPU on a Stratix 10 NX (FPT 2020): recurrent layer of 1,792 units, 256 steps, batch 6",
}
