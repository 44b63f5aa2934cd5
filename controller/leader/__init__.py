"""Leader election, and the label by which a Service finds the leader."""
