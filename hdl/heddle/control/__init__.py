"""Control of the device by the host: AXI4-Lite, registers, counters, start and end of a run."""
