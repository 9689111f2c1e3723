"""Frameworks that train recurrent models: the programs of docs/frameworks, killed, resumed, compared, exported."""
