"""Servers under test: launched here (``reference``) or already running (``external``)."""
