"""Explains in the cluster why claims are pending: by Events, by annotations, and by an HTTP route.

Read from top to bottom: ``shared_state`` holds what is known, ``informers`` fills it, ``loop`` decides which pod is
explained when, ``budgeted`` explains it, ``reports`` says what is written of that, ``writer`` writes it, ``redaction``
hides other namespaces' names, ``routes`` answers HTTP requests.
"""
