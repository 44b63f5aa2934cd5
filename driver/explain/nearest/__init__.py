"""The changes that :mod:`driver.explain.proposals` tries, one module a kind."""
