"""Names, texts, files, paths and the clock: imports nothing of the host but `errors`."""
