"""Instruction set, defined once for RTL decode, assembler, disassembler, simulator and documentation."""
