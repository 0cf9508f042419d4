"""Whatever reads rows, in processes of their own."""
