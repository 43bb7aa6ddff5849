"""ONNX on the device: the published cases of its operators."""
