"""A node's GPUs and NICs as placement sees them: how much of each GPU is free, and what stands near what."""
