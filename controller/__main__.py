"""``python -m controller``."""

from controller.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
