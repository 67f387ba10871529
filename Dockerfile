# syntax=docker/dockerfile:1
# For people with docker. The released image is built by `make image`: docs/how-to/build-the-image.md
ARG BUILD=docker.io/library/python:3.13-slim-trixie
ARG RUNTIME=gcr.io/distroless/python3-debian13:nonroot

FROM ${BUILD} AS build
ARG UV_VERSION=0.13.9
RUN python3 -m pip install --no-cache-dir --root-user-action=ignore "uv==${UV_VERSION}"
# The sources are mounted and not copied: examples/ has files named .wh.*, which image layers take for deletions.
RUN --mount=type=bind,source=.,target=/src \
    uv export --quiet --frozen --no-dev --all-extras --no-emit-project --project /src -o /requirements.txt \
    && uv pip install --quiet --target /app --only-binary :all: --link-mode copy --require-hashes -r /requirements.txt \
    # Tests and build files of a wheel, and copies of a library, because wheels cannot hold links.
    && rm -rf /app/bin /app/bazel-project /app/cel_expr_python/ext \
    && cd /app/helm_python/lib && first="$(ls libhelm_c.so* | head -n 1)" \
    && for copy in $(ls libhelm_c.so* | tail -n +2); do ln -sf "${first}" "${copy}"; done
RUN --mount=type=bind,source=.,target=/src \
    uv build --quiet --wheel --out-dir /wheel /src \
    && uv pip install --quiet --target /app --no-deps --link-mode copy /wheel/*.whl \
    && rm -rf /app/bin /app/clusterstacks/csctl /app/clusterstacks/dev \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /app
RUN mkdir -p /programs/usr/bin \
    && operator='#!/usr/bin/python3.13 -IB\nfrom clusterstacks.operator.main import main\n\nmain()\n' \
    && printf "${operator}" > /programs/manager \
    && printf "${operator}" > /programs/usr/bin/cluster-stack-operator \
    && chmod 0755 /programs/manager /programs/usr/bin/* \
    && install -d -m 0700 -o 65532 -g 65532 /programs/var/cache/cluster-stacks && install -d /programs/releases

FROM ${RUNTIME}
COPY --from=build /app /usr/local/lib/python3.13/dist-packages
COPY --from=build /programs /
# Free memory is returned to the system: tools/image/layout.py.
ENV MALLOC_TRIM_THRESHOLD_=131072
USER 65532:65532
WORKDIR /
EXPOSE 8080 9440 9443
ENTRYPOINT ["/usr/bin/cluster-stack-operator"]
