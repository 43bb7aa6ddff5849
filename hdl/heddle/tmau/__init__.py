"""Tensor memory access unit: bulk copies between global and shared memory."""
