"""The HTTP server that the controller and the plugin share, in which a slow client delays no other client.

Anybody who reaches the port may send anything, at any pace, over any number of connections. So one thread does all
reading and writing and never blocks (:mod:`.server`); a small pool of threads works only on requests that have arrived
whole; and where something runs short, the client that uses the most of it loses first.
"""
