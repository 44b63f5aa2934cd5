"""The controller's informers: what it keeps of the cluster's objects, and which key each event adds to a queue."""
