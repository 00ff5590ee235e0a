"""The host over HTTP: APIs that other programs speak already, its own, and the page.

Nothing here is imported before a server is started.
"""
