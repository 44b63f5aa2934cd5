"""Why is a claim pending? One evaluator for the terminal, the controller and programs; see docs/design/explain.md.

``cluster`` says what is known of a cluster's objects, ``state`` keeps them, ``case`` is what is asked about, and
``explainer`` answers with an ``explanation``; what it proposes was tried by the allocator before.
"""
