"""The API of Assistants, as the server has it."""
