"""Web pages for people who look, and who act: streams and their budgets, PTKs, deliveries, health."""
