"""The changes that :mod:`driver.explain.propose.proposals` tries, one module a kind."""
