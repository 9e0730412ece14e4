"""The sandbox broker: leases, sandboxes, the program inside them and their files."""
