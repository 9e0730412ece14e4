"""The offline model: a rule-based, OpenAI-compatible Chat Completions server."""
