"""Where the cycles of runs went: traces, figures of layers, and reports, from records of ``heddle_sim.device.recording``."""
