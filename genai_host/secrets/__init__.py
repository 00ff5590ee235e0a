"""Secrets of providers: where they are stored, and how they are found."""
