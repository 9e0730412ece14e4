"""The other services as a running Turn uses them."""
