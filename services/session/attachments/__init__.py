"""Immutable documents that Turns are given."""
