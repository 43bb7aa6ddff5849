"""Random and chosen stimulus: programs, requests, layers, configurations."""
