"""Configured providers, and the limits of their calls."""
