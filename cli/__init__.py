"""The `fleet` command."""

import os

# Read by gRPC's core when it is first imported: a peer that goes away is no line on the person's terminal.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
