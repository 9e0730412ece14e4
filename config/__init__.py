"""The typed policy of a Fleet deployment: its schema, its loader and the shipped `fleet.toml`."""
