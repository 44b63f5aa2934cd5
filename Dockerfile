# Rootport's image: the kubelet plugin, the controller and the CLI. Build it with any builder that knows Dockerfiles:
#   docker build -t rootport:0.2.0.dev0 .
# BASE is a Debian 12 with Python 3.11 as `python`, its venv module and apt; a mirror's copy will do. The digest is that of
# the index for all platforms (Python 3.11.16), which the tag names since September 2026; docs/operator/install.md says how
# to use a newer one.
# The layers are the same in every build from the same base and the same Debian packages, but for times. The release tool
# sets those as well, and takes no layer from an earlier build, which would keep its own (docs/dev/releasing.md).
ARG BASE=docker.io/library/python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

# A C compiler, and the headers of Python where the base has none (Debian's Python). Neither is in the image.
FROM ${BASE} AS compiler
RUN headers=$(python -c 'import sysconfig; print(sysconfig.get_path("include"))') \
 && apt-get update \
 && apt-get install -y --no-install-recommends gcc=4:12.* libc6-dev=2.36-* \
      $(test -e "$headers/Python.h" || echo libpython3-dev=3.11.*) \
 && rm -rf /var/lib/apt/lists/*

# Rootport's dependencies, by hash, in a virtual environment without pip.
FROM compiler AS dependencies
WORKDIR /src
RUN python -m venv /tools && python -m venv --without-pip /opt/rootport
COPY requirements.lock ./
RUN /tools/bin/pip --no-cache-dir --disable-pip-version-check --python /opt/rootport/bin/python \
      install --only-binary :all: --require-hashes --no-compile -r requirements.lock
# Processes with docstrings, and the kubelet plugin, which runs without (-OO), can each use only files of their own level.
# unchecked-hash: these files say nothing of the times of their sources, which differ in each build, and are not compared
# with them when they are read: nothing is changed in a running container.
RUN python -m compileall -q -o 0 -o 2 --invalidation-mode unchecked-hash /opt/rootport/lib

# Rootport itself, as a wheel with a compiled allocator. The build's own tools are locked too: the lines of the development
# lock that name them.
FROM dependencies AS build
COPY requirements-dev.lock ./
RUN tools='ast-serialize|grpcio|grpcio-tools|librt|mypy|mypy-extensions|pathspec|protobuf|setuptools|typing-extensions' \
 && awk -v "tools=^($tools)==" '/^[a-z]/ { keep = $0 ~ tools } keep' requirements-dev.lock > build.lock \
 && /tools/bin/pip --no-cache-dir --disable-pip-version-check install --only-binary :all: --require-hashes -r build.lock
# All that .dockerignore lets through.
COPY . .
# The time that the files in the wheel have, in seconds since 1970: any will do, this is the first that a wheel can have.
ARG SOURCE_DATE_EPOCH=315532800
# --root: the code lands under /new, apart from its dependencies, so that the last layer of the image is the code alone.
RUN ROOTPORT_COMPILE=required /tools/bin/pip --no-cache-dir --disable-pip-version-check \
      wheel --no-deps --no-build-isolation --wheel-dir /wheel . \
 && /tools/bin/pip --no-cache-dir --disable-pip-version-check --python /opt/rootport/bin/python \
      install --no-deps --no-index --no-compile --root /new /wheel/*.whl \
 && python -m compileall -q -o 0 -o 2 --invalidation-mode unchecked-hash -s /new -p / /new

# The CNI plugin that the kubelet plugin puts on the node: static, so that it runs on any distribution, and hardened, since it
# runs as root; cflags has the options.
FROM compiler AS cni
COPY kubeletplugin/network/cni/shim /shim
RUN gcc @/shim/cflags -o /rootport-cni /shim/*.c

FROM ${BASE}
LABEL org.opencontainers.image.title="rootport" \
      org.opencontainers.image.licenses="Apache-2.0"
# Nothing is installed in a running container, so nothing that installs is left in it (a Debian base has none of these).
RUN rm -rf /usr/local/bin/pip* /usr/local/bin/wheel /usr/local/lib/python3.*/ensurepip \
      /usr/local/lib/python3.*/site-packages/pip* /usr/local/lib/python3.*/site-packages/setuptools* \
      /usr/local/lib/python3.*/site-packages/wheel* /usr/share/python-wheels
# `ip` and `rdma`, which move network interfaces and RDMA devices; `nsenter`, of util-linux, is in every Debian.
RUN apt-get update && apt-get install -y --no-install-recommends iproute2=6.1.* \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig /var/log/apt /var/log/dpkg.log /var/log/alternatives.log
# Nothing is written in a running container, so what is not compiled here is compiled at each start of a process.
RUN python -m compileall -q -o 0 -o 2 --invalidation-mode unchecked-hash \
      -x '/(idlelib|lib2to3|test|tests|tkinter|turtledemo|site-packages|dist-packages)/' \
      "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
ENV PATH=/opt/rootport/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=dependencies /opt/rootport /opt/rootport
COPY --from=cni /rootport-cni /opt/rootport/libexec/rootport-cni
COPY --from=build /new/ /
# The controller runs as this user; the kubelet plugin's pod asks for root, see docs/design/security.md.
USER 65532:65532
CMD ["rootport", "--help"]
