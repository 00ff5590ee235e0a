"""OpenAI's API: chat completions, embeddings, moderations, models.

Source of all here: OpenAI API reference, OpenAPI document 2.3.0.
"""
