from __future__ import annotations

from tests.support.scraped import scrape

__all__ = ["scrape"]
