"""Programs that build and simulate: found, run under a time limit, their results kept."""
