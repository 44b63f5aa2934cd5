"""Why claims are pending, told in the cluster: watches, a thread of lower rank, Events, annotations, and an HTTP route.

Read from top to bottom: ``mirror`` keeps what is known, ``watches`` feeds it, ``loop`` decides whom to explain when,
``records`` what is to be written, ``writer`` writes it, ``names`` hides other namespaces' names, ``routes`` answers.
"""
