"""Anthropic's API: messages, the count of their tokens, models.

Source of all here: Claude API reference, as of November 2026.
"""
