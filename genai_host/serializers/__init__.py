"""JSON forms of data, shared by the command line and the HTTP API."""
