"""Shared parts of the tests of the host and of its plugins in this repository: fixtures, stores,
servers, rings.

They need the extra `internal`, and those about a plugin need that plugin. They can change in any
release.
"""
