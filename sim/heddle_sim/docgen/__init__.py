"""Pages that are generated from the tables of the hardware."""
