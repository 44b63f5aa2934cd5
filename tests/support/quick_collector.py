"""The controller with templates that are collected a second after their last use: ``python -m`` this module."""

from __future__ import annotations

from functools import partial

from controller.conversion import collector
from controller.conversion.lifetime import Lifetime
from controller.main import main

__all__ = ["QUICK"]

QUICK = Lifetime(refresh_s=0.3, request_s=0.3, skew_s=0.4)

if __name__ == "__main__":
    collector.TemplateCollector = partial(  # type: ignore[assignment,misc]
        collector.TemplateCollector, lifetime=QUICK, every_s=0.2
    )
    main()
