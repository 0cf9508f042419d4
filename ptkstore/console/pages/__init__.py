"""The contents of the pages, read by the same use cases and under the same rules as over HTTP."""
