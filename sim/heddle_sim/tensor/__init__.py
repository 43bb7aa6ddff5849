"""Tensor descriptors for users, and where boxes lie in shared memory."""
