"""The node's half of Rootport: it will answer kubelet's DRA calls from the driver's prepare plan. Nothing here yet."""
