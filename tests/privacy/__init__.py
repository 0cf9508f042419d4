"""Nothing raw outside the raw zone: canaries, expiry, backups, hostile names."""
