"""What users write: attachments, fragments, templates."""
