"""Makes the modes of GPUs follow the claims that wait for them."""
