"""Conversations: features run step by step, recorded and replayed."""
