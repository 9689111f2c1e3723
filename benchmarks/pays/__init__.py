"""Is it worth it? Every way to a smaller model, on equal terms."""
