"""The second-level cache with its reduction unit, between the cores and memory."""
