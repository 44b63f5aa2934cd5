"""What a node has: devices, where each hangs in the PCIe tree, and how far any two are apart. Pure data, no I/O."""
