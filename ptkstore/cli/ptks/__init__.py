"""Commands on PTKs."""
