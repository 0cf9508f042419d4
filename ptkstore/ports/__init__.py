"""What use cases need from the world, as Protocols."""
