"""Generated hardware and functional simulator on the same programs: what they leave must be equal."""
