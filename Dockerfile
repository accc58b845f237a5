# An image that has `kubesched`, for amd64 and arm64. docs/image.md says how it is built and used:
#   docker buildx build --platform linux/amd64,linux/arm64 --tag REGISTRY/kubesched:0.1.0 --push .
# Any base with Python 3.11 to 3.14 and glibc 2.28 or newer will do; pin yours by its digest.
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS build
# The environment has no pip of its own: nothing can be installed where the scheduler runs.
RUN python3 -m venv --without-pip /opt/kubesched && python3 -m venv /opt/build
WORKDIR /build
COPY requirements/runtime.txt requirements/build.txt requirements/
# Wheels only, each of a known hash: no compiler is needed, and nothing of a package runs here.
RUN /opt/build/bin/pip --python /opt/kubesched/bin/python install --no-cache-dir --no-deps \
      --only-binary=:all: --require-hashes --requirement requirements/runtime.txt \
 && /opt/build/bin/pip install --no-cache-dir --no-deps \
      --only-binary=:all: --require-hashes --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && /opt/build/bin/pip --python /opt/kubesched/bin/python install --no-cache-dir --no-deps \
      --no-index dist/*.whl

FROM ${BASE_IMAGE}
COPY --from=build /opt/kubesched /opt/kubesched
# Everything is compiled already, and the file system may be read-only.
ENV PATH=/opt/kubesched/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["kubesched"]
CMD ["run", "--config=/etc/kubesched/scheduler.yaml"]
