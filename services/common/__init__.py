"""What every service shares: the gRPC server and channel factory, errors, tokens, storage, clock and ids."""
