"""The interfaces of use cases to the world, as Protocols."""
