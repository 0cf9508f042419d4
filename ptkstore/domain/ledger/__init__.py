"""The ledger: journal, filters, rules, odometers and reports."""
