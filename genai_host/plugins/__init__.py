"""Plugins: discovery, loading, registry, observers and installation."""
