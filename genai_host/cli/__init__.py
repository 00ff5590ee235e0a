"""The command line, one file per command. Each is imported when it runs."""
