"""The calls that run children: batches, what they report, and attaching to them again."""
