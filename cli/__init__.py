"""The `fleet` command."""
