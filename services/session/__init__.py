"""The session service: Sessions, Turns, their event log, attachments and the resident RLM."""
