"""Conversations: what they are and how they may change."""
