"""Objects that the API server takes and that a careless reader stumbles over; see ``corpus.py``."""
