"""Services of vendors, simulated on this machine, in the vendors' own formats.

- `openai`, `anthropic`, `gemini`, `bedrock`, `ollama`: replies for a `FakeService`
- `assistants`, `responses`: OpenAI's Assistants API, and its successor, that follow a script
- `mcp`: a server of the Model Context Protocol; it needs `pip install genai-host-testing[mcp]`
- `page_site`: a website with valid, invalid, slow or endless replies
"""
