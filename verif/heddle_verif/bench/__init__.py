"""Test benches: one module of cocotb tests per unit."""
