"""OpenAI's formats for services: chat completions, responses, embeddings, moderations.

Source: OpenAI API reference, OpenAPI document 2.3.0.
"""
