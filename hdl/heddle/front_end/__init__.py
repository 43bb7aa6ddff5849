"""Front end of a core: instruction fetch, decode, issue with a scoreboard of register groups, and uniform registers."""
