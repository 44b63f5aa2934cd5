"""What explain knows of a cluster."""
