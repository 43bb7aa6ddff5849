"""Golden models of the units: numpy, integer exact."""
