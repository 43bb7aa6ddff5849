"""Shared memory, barriers and the path to global memory."""
