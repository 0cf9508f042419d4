"""PTKs: what a team registers, and what it says of their serving."""
