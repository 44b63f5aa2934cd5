"""Rootport's tests; ``CONTRIBUTING.md`` says what is where."""
