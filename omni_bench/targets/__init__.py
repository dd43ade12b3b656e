"""Servers under test: launched here (the reference server, a named one, any command), or running already."""
