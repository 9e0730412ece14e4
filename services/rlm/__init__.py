"""The native-RLM harness that the session and recursion services share."""
