"""The Root, Sub and child models, and the connections to their providers."""
