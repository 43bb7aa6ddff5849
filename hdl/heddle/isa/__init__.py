"""The instruction set, defined once: RTL decode, assembler, disassembler, simulator and documentation read it."""
