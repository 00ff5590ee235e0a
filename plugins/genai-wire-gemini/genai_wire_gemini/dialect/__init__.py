"""Gemini's format for services."""
