"""Anthropic's format for services."""
