"""Many trainings with other settings each, under one budget or several: a study on Optuna that any process can join."""
