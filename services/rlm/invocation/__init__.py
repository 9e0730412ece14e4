"""One invocation of an RLM: what it may use, its steps, its clock and its end."""
