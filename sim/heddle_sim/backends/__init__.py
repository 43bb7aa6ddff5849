"""Backends that execute a program: the Verilated hardware, or the functional simulator."""
