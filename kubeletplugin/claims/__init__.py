"""What the kubelet asks for: claims are prepared and unprepared, and what a crash left is finished or undone.

``preparer`` answers the kubelet, with ``reader`` (the claim from the API server), ``planner`` (the decision) and
``effects`` (what is done to the node). ``recovery`` runs at the start and now and then. ``status`` publishes the result
in the claim.
"""

__all__: list[str] = []
