"""PTKs, their versions, profiles and evaluations in SQL."""
