"""Networks in ONNX's format."""
