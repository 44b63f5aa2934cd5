"""The one HTTP server of controller and plugin, on which nobody's slowness becomes another's.

Whoever reaches the port may send anything, at any pace, over any number of connections. So one thread does all reading
and writing and waits for nobody (:mod:`.server`); threads, of which there are few, only ever work on requests that are
there in whole; and wherever something runs short, whoever takes the most of it makes room.
"""
