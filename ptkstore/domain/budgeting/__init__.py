"""Online budgeting: a block serves the queries that it teaches most (Privacy Budgeting, INFOCOM'21).

The rules here are public: they read costs, what blocks have left, and answers that were paid for. A significance that
was measured on rows never enters them. `ptklib.significance` compares or releases it, with noise.
"""
