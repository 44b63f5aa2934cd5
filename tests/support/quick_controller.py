"""The controller with devices that leave the slices after two seconds, not half a minute: ``python -m`` this module."""

from __future__ import annotations

from controller.modes import claim_lists
from driver.modes import transition

QUICK_S = 2.0


def main() -> None:
    transition.CLOSED_S = QUICK_S  # type: ignore[misc]
    claim_lists.EVERY_S = 0.5  # type: ignore[misc]
    # These read the two constants on import.
    from controller.main import main as run  # noqa: PLC0415
    from controller.modes import node_modes  # noqa: PLC0415

    node_modes._DROP_EVERY_S = QUICK_S  # type: ignore[misc]
    run()


if __name__ == "__main__":
    main()
