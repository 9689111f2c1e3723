"""What ``leanrnn demo`` does."""
