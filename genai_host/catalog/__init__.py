"""The catalog: resolves model names, and pairs models with providers. It does no I/O."""
