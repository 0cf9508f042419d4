"""Commands about budgets, people and what they did."""
