"""Claims that were written for other DRA drivers: NVIDIA's and dranet."""

from driver.convert.other_drivers.claims import convert_claim, is_claim, is_generated

__all__ = ["convert_claim", "is_claim", "is_generated"]
