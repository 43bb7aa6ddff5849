"""Proofs: specifications of small control units, and the solvers that check them."""
