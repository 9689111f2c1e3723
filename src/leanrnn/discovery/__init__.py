"""Finding the groups of any recurrent model by reading the operators it executed; README.md here tells how."""
