"""Commands on streams."""
