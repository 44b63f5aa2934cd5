"""The plugin's state on disk: checkpoint, CDI specs, journals of effects, and the lock over them."""
