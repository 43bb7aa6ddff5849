"""Shared memory with its barriers, the arbiter of global memory and the AXI4 master."""
