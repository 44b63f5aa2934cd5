"""The page that shows the cluster's devices: static files alone, in ``static``, which ask the HTTP API under /api/v1.

Plain HTML, CSS and ES modules: nothing is built, and nothing is loaded from elsewhere, so that it works without the
Internet. The files name no host and no absolute path; the page works wherever ``dashboard/`` and ``api/`` stand side by
side. They keep to ``Content-Security-Policy: default-src 'self'; require-trusted-types-for 'script'``.
"""

__all__: list[str] = []
