"""Functional simulator: whole programs on numpy arrays, one instruction at a time, without timing."""
