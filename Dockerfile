# syntax=docker/dockerfile:1

# Both stages take the same interpreter, so that the environment of the first runs in the second.
ARG PYTHON=3.13-slim-bookworm

FROM python:${PYTHON} AS environment
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
COPY requirements.lock /tmp/requirements.lock
# Every package by version and hash; wheels only, since nothing here may run a build.
RUN python -m venv --without-pip /opt/slurm-extender \
    && python -m pip --python /opt/slurm-extender/bin/python install \
        --require-hashes --only-binary :all: --requirement /tmp/requirements.lock
COPY extender /tmp/source/extender
COPY slurmclient /tmp/source/slurmclient
RUN site="$(/opt/slurm-extender/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && cp -r /tmp/source/extender /tmp/source/slurmclient "$site" \
    && /opt/slurm-extender/bin/python -m compileall -q -j 0 "$site"

FROM python:${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="slurm-extender" \
      org.opencontainers.image.description="Slurm places Kubernetes Pods: a kube-scheduler extender that turns each Pod into a Slurm placeholder job." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONSAFEPATH=1
COPY --from=environment /opt/slurm-extender /opt/slurm-extender
# A number: kubelet cannot tell whether a name is root.
USER 65532:65532
ENTRYPOINT ["/opt/slurm-extender/bin/python", "-m", "extender"]
CMD ["serve", "--config=/etc/slurm-extender/config/config.yaml"]
