"""What goes into an RLM and what comes out: Signatures, inputs, capsules, outputs."""
