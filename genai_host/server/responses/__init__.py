"""OpenAI's Responses and Conversations, for whatever model or feature the host has.

    api.py            what is answered under each path
    request.py        a request with its tools, read; `items.py` reads what was said
    messages.py       what was said, as the host has it, and what a model answered, as items
    replies.py        the response with all of its fields, whole and in events
    state.py          responses and conversations between requests

Source: OpenAI API reference, "Responses" and "Conversations", OpenAPI document 2.3.0.
"""
