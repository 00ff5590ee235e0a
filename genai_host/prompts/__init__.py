"""Prompts: attachments, fragments, templates."""
