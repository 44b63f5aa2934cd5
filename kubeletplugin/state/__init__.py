"""The plugin's state on disk: checkpoint, CDI specs, journals of effects, and the lock over all of them.

``store`` opens it for one caller at a time. The formats are held by golden files, and older versions are migrated.
"""

__all__: list[str] = []
