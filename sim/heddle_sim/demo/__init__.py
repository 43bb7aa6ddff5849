"""The demo: a quantised network classifies handwritten digits on the device."""
