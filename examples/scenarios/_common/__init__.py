"""What the scenarios share: loaders, generated stand-ins, learning curves, tables and plots."""
