"""The revisions. One that was released is never changed: what follows goes into the next."""
