"""The service's gRPC faces: one module a contract, translation and nothing else."""
