"""A page that runs exported language models in the browser; needs the extra ``onnx``, and npm once."""
