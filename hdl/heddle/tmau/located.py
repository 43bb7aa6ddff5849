"""A beat on its way to shared memory."""

from amaranth.lib import data

from ..layouts import PC_BITS
from .generator import burst_layout, units_per_beat

__all__ = ["located_beat_layout"]


def located_beat_layout(cfg):
    """A beat of read data and where it goes: valid unit i goes to unit ``pointer + i`` of shared memory."""
    burst = burst_layout(cfg)
    return data.StructLayout({
        "data": cfg.axi_data_bits,
        "pointer": burst["pointer"].shape,
        "valid_units": units_per_beat(cfg),
        "tag": cfg.tag_bits,
        "last": 1,
        "error": 1,
        "barrier": 4,
        "has_barrier": 1,
        "swizzled": 1,
        "pc": PC_BITS,
        "beat_address": burst["beat_address"].shape,
    })
