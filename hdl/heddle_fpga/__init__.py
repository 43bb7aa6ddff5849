"""FPGA flow: synthesis by Yosys, place and route by nextpnr, as their users run them."""

from .place_and_route import NextpnrError
from .synthesis import TARGETS, count_cells, count_parts, synthesise

__all__ = ["TARGETS", "NextpnrError", "count_cells", "count_parts", "synthesise"]
