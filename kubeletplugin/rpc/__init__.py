"""gRPC over unix sockets, as much of it as the kubelet needs: a server, and a client for one call.

Sources: RFC 9113 (HTTP/2), RFC 7541 (its header compression), and gRPC over HTTP/2 (github.com/grpc/grpc,
doc/PROTOCOL-HTTP2.md). The other end is the kubelet, on this node, as root. What it sends is bounded all the same.

The library ``grpcio`` would take 24 MB of memory and a millisecond of CPU for a call (docs/dev/performance.md).
``connection`` and ``hpack`` decide and do no I/O; ``server`` and ``client`` have the sockets and threads.
"""

from kubeletplugin.rpc.client import call_unary
from kubeletplugin.rpc.server import Lane, RpcServer
from kubeletplugin.rpc.service import Call, Method, RpcError, Status, streaming, unary

__all__ = ["Call", "Lane", "Method", "RpcError", "RpcServer", "Status", "call_unary", "streaming", "unary"]
