# The service as an image. Inside a default container bubblewrap can't start; the weaker container fallback is used then
# and said in every report. docs/operating.md says which options let bubblewrap start, and what they trade.
FROM python:3.12-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap git \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/graftsmith
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN python -m venv .venv \
 && .venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY app app
COPY agent agent
COPY sandbox sandbox
RUN .venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation .

# Root inside the container: each command under test gets an unprivileged user of its own, which only root can give.
ENV PYTHONSAFEPATH=1 \
    PATH=/opt/graftsmith/.venv/bin:/usr/local/bin:/usr/bin:/bin \
    GRAFTSMITH_HOST=0.0.0.0 \
    XDG_STATE_HOME=/var/lib
VOLUME /var/lib/graftsmith
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=5)"]
ENTRYPOINT ["graftsmith"]
CMD ["serve"]
