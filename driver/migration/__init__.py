"""How far a node is on its way from device plugins to Rootport, or back, and what comes next."""
