"""Proposes changes that would make a claim fit, each tried with the allocator."""
