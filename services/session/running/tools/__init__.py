"""The Root's host tools."""
