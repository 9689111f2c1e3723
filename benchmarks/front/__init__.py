"""What the first page shows: a table of results, and pictures."""
