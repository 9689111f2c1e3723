"""What was measured, as programs: ``python -m benchmarks`` from the project's root lists them.

Packages here import each other by their full names, so the root has to be where Python starts. Results go to
``results/``, with the command that gives them again; pages take their tables from there.
"""
