"""Anthropic's API: messages, token counts, models.

Source: Claude API reference, as of November 2026.
"""
