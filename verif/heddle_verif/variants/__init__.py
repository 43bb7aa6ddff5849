"""Which variants of each unit the presets build, and which of them have a bench."""
