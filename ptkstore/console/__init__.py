"""Web pages for people who look: streams and their budgets, PTKs, deliveries, health. They change nothing."""
