"""Sparse engine: products of sparse matrices with dense ones on the PE array."""
