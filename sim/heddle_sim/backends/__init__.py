"""What executes a program: the Verilated hardware, or the functional simulator."""
