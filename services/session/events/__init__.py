"""The durable, numbered events of Turns: writing, reading, watching."""
