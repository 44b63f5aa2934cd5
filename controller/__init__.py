"""The control plane's half of Rootport: it publishes the nodes' ResourceSlices and Device objects."""
