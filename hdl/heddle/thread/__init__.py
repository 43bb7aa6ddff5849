"""Thread unit: SIMD lanes for integer functions, comparisons, loads and stores of all threads."""
