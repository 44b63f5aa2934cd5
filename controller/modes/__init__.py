"""What is published of each GPU: the choice for the whole cluster, and what pending claims need."""
