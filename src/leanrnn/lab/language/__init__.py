"""Language models: data, model, loop and recipes."""
