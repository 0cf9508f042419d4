"""Jobs and deliveries in SQL: claims, leases, fences, and whose turn it is."""
