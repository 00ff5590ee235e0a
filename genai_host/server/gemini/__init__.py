"""The Gemini API, for clients that speak it."""
