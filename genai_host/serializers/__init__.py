"""What there is, as JSON objects: the same on the command line and over HTTP."""
