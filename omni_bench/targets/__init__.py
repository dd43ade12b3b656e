"""Servers under test: launched here (``reference``, ``command``) or already running (``external``)."""
