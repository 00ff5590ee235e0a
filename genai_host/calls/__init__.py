"""Calls of models: routes, retries, middleware, agents."""
