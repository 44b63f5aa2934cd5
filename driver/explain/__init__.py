"""Why is a claim pending? One evaluator for the terminal, the controller and programs; see docs/design/explain.md.

The way of an answer: ``known`` keeps the cluster's objects, ``judge`` evaluates its nodes for a case, ``tell`` puts the
verdicts into words, ``propose`` tries changes with the allocator. ``explainer`` makes an ``explanation`` of all that,
and ``reasons`` has the codes.
"""
