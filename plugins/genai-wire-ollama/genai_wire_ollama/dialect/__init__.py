"""Ollama's format for services."""
