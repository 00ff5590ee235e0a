"""Plugins: found, loaded, registered, told of what happens, installed."""
