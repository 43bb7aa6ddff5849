"""The engine for recurrent networks."""
