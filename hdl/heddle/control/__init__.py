"""Host control: AXI4-Lite subordinate, control registers, performance counters and run control."""
