"""``python -m kubeletplugin`` is ``rootport-kubelet-plugin``."""

from kubeletplugin.main import main

if __name__ == "__main__":
    main()
