"""Schedulers: which waiting PTK is trained next, on which windows and with which loss (Sage SOSP'19, section 3.3)."""
