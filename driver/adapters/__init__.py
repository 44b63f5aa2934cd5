"""The thin edges: what reads files, folders and libraries, and hands typed data to the core. Each in its own module."""
