"""A stranger in a process of its own: sends a file as reviews, one after the other, beside silent connections.

Arguments: the port, the file, how many threads send, how many connections say nothing but their part of the handshake.
"""

import socket
import ssl
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

port, body, senders, silent = int(sys.argv[1]), Path(sys.argv[2]).read_bytes(), int(sys.argv[3]), int(sys.argv[4])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE


def stay(*, sends: bool) -> None:
    while True:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
            context.wrap_socket(plain) as tls,
        ):
            if sends:
                tls.sendall(b"POST /admission HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            while tls.recv(65536):
                pass
        time.sleep(0.02)  # it is to take the server's time, and not all of the machine's


for index in range(senders + silent):
    threading.Thread(target=stay, kwargs={"sends": index < senders}, daemon=True).start()
sys.stdout.write("\n")
sys.stdout.flush()
sys.stdin.read()
