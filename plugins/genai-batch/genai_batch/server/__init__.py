"""OpenAI's Batch API: the routes, the rows of its files, and the work in the background."""
