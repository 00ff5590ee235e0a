"""The HTTP server: APIs of other providers, the native API and the page.

Its modules are imported only when a server is started.
"""
