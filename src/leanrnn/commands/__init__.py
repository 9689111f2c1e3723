"""The commands of the command line, a file each: what can be said to them, and what they print."""
