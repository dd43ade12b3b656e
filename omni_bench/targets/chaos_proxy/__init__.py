"""Faults of the wire: a proxy that can stand before any speech server and break what passes through it."""
