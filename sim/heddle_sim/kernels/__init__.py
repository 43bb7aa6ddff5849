"""Programs that the device runs, with the values of the registers that they expect."""
