"""The thread unit: ALU, loads and stores of all threads."""
