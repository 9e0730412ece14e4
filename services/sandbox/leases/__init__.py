"""The right to use a sandbox: its states, its life from intent to absence, capacity and the warm pool."""
