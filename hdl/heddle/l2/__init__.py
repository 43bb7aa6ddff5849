"""Second-level cache (L2) with its reduction unit, between the cores and global memory."""
