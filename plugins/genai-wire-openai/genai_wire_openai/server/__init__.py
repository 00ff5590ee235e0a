"""OpenAI's API: chat completions, embeddings, moderations, models.

Source: OpenAI API reference, OpenAPI document 2.3.0.
"""
