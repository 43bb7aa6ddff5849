"""What kernels are made of: tilings, merges, transfers, shares, text, and what fits."""
