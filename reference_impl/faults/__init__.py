"""Mistakes that speech servers have shipped, each a switch of the reference server (``reference.fault=NAME``).

They are real code paths, not errors added to a result: a tool that catches them here would have
caught them there. ``catalogue.py`` names them (without PyTorch), ``engines.py`` builds the engine
of one; nothing of this package is loaded by a server that is not broken on purpose.
"""
