"""Ollama's API, for clients that speak it."""
