"""What children report, for the event log and for the Root's code."""
