"""Prepares and unprepares claims for the kubelet, and finishes or undoes what a crash left.

``preparer`` answers the kubelet, with ``reader`` (the claim from the API server), ``planner`` (the decision) and
``effects`` (what is done to the node). ``recovery`` runs at the start and now and then. ``status`` publishes the result
in the claim.
"""

__all__: list[str] = []
