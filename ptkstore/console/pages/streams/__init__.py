"""The page of a stream: its windows, its budget, its history and who may do what."""
