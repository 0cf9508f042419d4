"""The double-resource allocation: privacy loss, rows and a train partition for every PTK (PTK paper, Fig. 4)."""
