"""What the API server and consumers would refuse in ResourceSlices: tests check with it what Rootport publishes.

Rootport itself validates no slices: what it publishes is made within these rules, and what others publish has been
validated by the API server.
"""

from tests.support.slice_validation.slices import validate_slices

__all__ = ["validate_slices"]
