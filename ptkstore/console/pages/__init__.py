"""What the pages show: read by the same use cases, and under the same rules, as over HTTP."""
