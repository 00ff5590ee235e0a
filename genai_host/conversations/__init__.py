"""Conversations: features driven step by step, recorded, replayed."""
