"""Which replica owns a Session, and what happens when an owner is gone."""
