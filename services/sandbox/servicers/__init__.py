"""The broker's gRPC face: translation, nothing else."""
