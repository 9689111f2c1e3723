"""What the sparsifier needs of optimizers, their state and its own memory."""
