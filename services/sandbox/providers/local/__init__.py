"""Sandboxes on this machine, isolated with bubblewrap."""
