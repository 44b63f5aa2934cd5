"""What a version of Rootport leaves on a node for claims of every kind, written and read by that version's own code.

The files in ``tests/data/states/<version>`` come from ``python -m tests.support.states`` (:mod:`.__main__`).
"""
