"""What the name of a model means: models joined with providers, pure."""
