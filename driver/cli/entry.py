"""Starts ``rootport``: Ctrl-C is handled before anything is imported that takes its time."""

from __future__ import annotations

from driver.cli import interrupts

__all__ = ["main"]


def main() -> None:
    """Run the command line; the exit codes are those of :func:`driver.cli.main.main`."""
    interrupts.ends_at_once()
    from driver.cli.main import main as run  # noqa: PLC0415 - click takes 50 ms, in which Ctrl-C has to be quiet

    interrupts.raises()
    try:
        run()
    except KeyboardInterrupt:
        interrupts.end()
    finally:
        interrupts.ends_at_once()


if __name__ == "__main__":
    main()
