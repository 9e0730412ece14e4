"""A Turn's budget: its books, what is spent from them, and their settlement."""
