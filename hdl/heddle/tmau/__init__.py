"""Tensor memory access unit (TMAU): bulk copies between global and shared memory."""
