"""The webhook's HTTPS server in a process of its own, so that its memory can be measured; tells its port."""

import sys
from datetime import UTC, datetime, timedelta

from controller.admission.webhook import admission_server
from controller.serving.certificates import issue

server = admission_server(0, advise=lambda _: ())
certificate, _ = issue(("127.0.0.1",), now=datetime.now(UTC), valid=timedelta(hours=1))
server.use(certificate.pem, certificate.key)
server.start()
sys.stdout.write(f"{server.port}\n")
sys.stdout.flush()
sys.stdin.read()
