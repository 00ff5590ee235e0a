"""The host's own API, under /api/v1: what there is, conversations, jobs, instances."""
