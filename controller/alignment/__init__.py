"""Reports pods whose GPUs and NICs could be nearer to each other."""
