"""Who is measured: Fleet's deployments, and `dspy.RLM` in processes of its own."""
