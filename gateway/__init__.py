"""REST and SSE over the gRPC contracts, and the web console. Holds no state of its own."""
