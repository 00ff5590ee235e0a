"""OpenAI's Responses and Conversations API, for any model or feature of the host.

- `api.py`: The handlers.
- `request.py`: Reading a request; `items.py` reads its items, `tools.py` its tools.
- `messages.py`: Conversion of items to messages, and of answers to items.
- `replies.py`: The response object and its events.
- `state.py`: Responses and conversations stored between requests.

Source: OpenAI API reference, "Responses" and "Conversations", OpenAPI document 2.3.0.
"""
