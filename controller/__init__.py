"""The control plane's half of Rootport: it will publish ResourceSlices and evaluate claims. Nothing here yet."""
