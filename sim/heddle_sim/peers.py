"""Published and measured areas of units of other projects, to stand beside ours."""

__all__ = ["peers"]

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


def peers(unit, target):
    """Rows (``unit lut ff dsp … source``) of comparable units elsewhere; a figure that is not known is missing."""
    row = PEERS.get((unit, target))
    return [row] if row else []
