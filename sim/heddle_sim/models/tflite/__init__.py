"""Networks in TFLite's format."""
