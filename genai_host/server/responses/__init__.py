"""OpenAI's Responses and Conversations, for whatever model or feature the host has.

    api.py            what is answered under each path
    request.py        a request, read; `items.py` reads what was said, `tools.py` the tools
    messages.py       what was said, as the host has it
    output.py         what a model answered, as items
    reply.py          the response with all of its fields; `stream.py` tells it in events
    kept.py           responses and conversations between requests

Source: OpenAI API reference, "Responses" and "Conversations", OpenAPI document 2.3.0.
"""
