# One stage a service: `docker build --target session -t fleet-session .`
# Each image installs only its own extra from the lock file, runs as an unprivileged user and listens on one port.
ARG PYTHON=3.13
FROM python:${PYTHON}-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LITELLM_LOCAL_MODEL_COST_MAP=True UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
WORKDIR /app
COPY bootstrap.txt ./
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r bootstrap.txt \
 && useradd --system --uid 10001 --create-home fleet
COPY pyproject.toml uv.lock README.md ./

FROM base AS source
COPY gen ./gen
COPY protos/service_config ./protos/service_config
COPY config ./config
COPY services ./services
COPY gateway ./gateway
COPY cli ./cli

FROM source AS session
RUN uv sync --frozen --no-dev --no-editable --extra session
USER 10001
EXPOSE 8421
ENTRYPOINT ["/app/.venv/bin/python", "-m", "services.session"]

FROM source AS sandbox
RUN uv sync --frozen --no-dev --no-editable --extra sandbox
USER 10001
EXPOSE 8422
ENTRYPOINT ["/app/.venv/bin/python", "-m", "services.sandbox"]

FROM source AS recursion
RUN uv sync --frozen --no-dev --no-editable --extra recursion
USER 10001
EXPOSE 8423
ENTRYPOINT ["/app/.venv/bin/python", "-m", "services.recursion"]

FROM source AS offline
RUN uv sync --frozen --no-dev --no-editable --extra offline
USER 10001
EXPOSE 8424
ENTRYPOINT ["/app/.venv/bin/python", "-m", "services.offline"]

FROM source AS gateway
RUN uv sync --frozen --no-dev --no-editable --extra gateway
USER 10001
EXPOSE 8420
ENTRYPOINT ["/app/.venv/bin/python", "-m", "gateway"]

FROM source AS cli
RUN uv sync --frozen --no-dev --no-editable --extra cli
USER 10001
ENTRYPOINT ["/app/.venv/bin/fleet"]
