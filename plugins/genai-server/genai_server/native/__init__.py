"""The native API under /api/v1: lists, conversations, jobs, models and provider instances."""
