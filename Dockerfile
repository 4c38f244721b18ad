# syntax=docker/dockerfile:1

# Required: the digest of the base image (sha256:...), so that a build takes known bytes and no tag that somebody moved.
# Without it the name of the base image is incomplete, and the build ends at FROM. What is put on top comes from the lock.
ARG PYTHON=3.13-slim-bookworm
ARG PYTHON_DIGEST

FROM python:${PYTHON}@${PYTHON_DIGEST} AS environment
ARG PYTHON_DIGEST
RUN python -c 'import re, sys; re.fullmatch("sha256:[0-9a-f]{64}", sys.argv[1]) or sys.exit("PYTHON_DIGEST is no digest")' \
        "${PYTHON_DIGEST}"
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
ARG SOURCE_DATE_EPOCH=0
COPY requirements.lock /tmp/source/requirements.lock
# Every package by version and hash; wheels only, since nothing here may run a build.
RUN python -m venv --without-pip /opt/slurm-extender \
    && python -m pip --python /opt/slurm-extender/bin/python install --no-compile \
        --require-hashes --only-binary :all: --requirement /tmp/source/requirements.lock
COPY pyproject.toml /tmp/source/pyproject.toml
COPY image /tmp/source/image
COPY extender /tmp/source/extender
COPY slurmclient /tmp/source/slurmclient
# The root of the image: the interpreter, the packages, the libraries of both. No shell, no package manager.
RUN site="$(/opt/slurm-extender/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && cp -r /tmp/source/extender /tmp/source/slurmclient "$site" \
    && python /tmp/source/image/assemble.py --environment /opt/slurm-extender \
        --scripts /tmp/source/pyproject.toml --out /image

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG PYTHON
ARG PYTHON_DIGEST
LABEL org.opencontainers.image.title="slurm-extender" \
      org.opencontainers.image.description="Slurm places Kubernetes Pods: a kube-scheduler extender that turns each Pod into a Slurm placeholder job." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="python:${PYTHON}" \
      org.opencontainers.image.base.digest="${PYTHON_DIGEST}"
ENV PATH=/opt/slurm-extender/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONSAFEPATH=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
COPY --from=environment /image /
# A number: kubelet cannot tell whether a name is root.
USER 65532:65532
ENTRYPOINT ["/opt/slurm-extender/bin/python", "-m", "extender"]
CMD ["serve", "--config=/etc/slurm-extender/config/config.yaml"]
