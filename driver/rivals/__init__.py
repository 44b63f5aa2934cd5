"""Which of a node's devices another system gives out: device plugins, and other DRA drivers."""
