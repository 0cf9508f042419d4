"""User embeddings: Poisson factors of users and items, from noisy statistics of bounded users."""

from ptklib.embeddings.estimator import UserEmbeddings

__all__ = ["UserEmbeddings"]
