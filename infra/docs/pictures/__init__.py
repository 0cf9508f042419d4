"""The drawings of the docs, as SVG."""
