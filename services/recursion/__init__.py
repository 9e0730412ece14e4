"""The recursion service: every Turn's budget ledger and its children, one level deep."""
