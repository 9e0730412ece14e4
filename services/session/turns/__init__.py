"""One request and its answer: its states, its admission, its record."""
