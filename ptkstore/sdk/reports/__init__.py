"""Signed reports in a form for people: what the page says, and how it is laid out as HTML and PDF."""
