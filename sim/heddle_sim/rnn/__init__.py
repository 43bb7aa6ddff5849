"""Recurrent networks on the engine: quantised layers, images for the engine, and plans of their parallelism."""
