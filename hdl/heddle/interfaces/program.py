"""Program that the host writes to the instruction memory of a core."""

from amaranth.lib import data

__all__ = ["program_write_layout"]


def program_write_layout(cfg):
    """Write of one 128-bit instruction to number ``address`` of the instruction memory."""
    return data.StructLayout({"address": cfg.program_counter_bits, "word": 128})
