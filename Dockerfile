# The server, with what its sandboxes need: docs/how-to/server.md says how it is run.
ARG PYTHON=docker.io/library/python:3.13-slim

FROM ${PYTHON} AS build
COPY . /src
# Everything is in this one folder, which is all that the image takes over: no compiler, no sources.
RUN python3 -m venv /opt/evalcell \
 && /opt/evalcell/bin/pip install --no-cache-dir '/src[server,mcp,postgres,process,deno,otel]' \
 && rm -rf /src

FROM ${PYTHON}
COPY --from=build /opt/evalcell /opt/evalcell
RUN groupadd --gid 10001 evalcell \
 && useradd --uid 10001 --gid evalcell --home-dir /data --no-create-home --shell /usr/sbin/nologin evalcell \
 && install -d -o evalcell -g evalcell -m 700 /data /var/cache/evalcell
ENV PATH=/opt/evalcell/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    EVALCELL_CACHE_DIR=/var/cache/evalcell \
    EVALCELL_STATE_DIR=/data
USER 10001:10001
# The Wasm guest is compiled here, so that a read-only root serves at once. It fits machines of the same kind as this one.
RUN evalcell run json-distance demo --limit 1 --quiet
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["python3", "-I", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["evalcell"]
CMD ["serve", "--host", "0.0.0.0"]
