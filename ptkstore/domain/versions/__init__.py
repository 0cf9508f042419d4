"""Published versions and the manifests that describe them."""
