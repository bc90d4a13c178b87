"""Where sums over the rows run: a fold over blocks, and a sample of their rows."""
