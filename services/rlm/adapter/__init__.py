"""Reading a model's reply: its sections, its code as written, and asking again."""
