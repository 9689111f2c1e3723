"""What lies behind :func:`leanrnn.export` and :func:`leanrnn.quantize`; needs the extra ``onnx``."""
