"""Runtimes that Sessions keep between Turns."""
