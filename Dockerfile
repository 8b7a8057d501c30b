# SPDX-License-Identifier: Apache-2.0
# The main program in Debian 12: docker build -t triplepoint . ; with the trainer: --build-arg PACKAGES="triplepoint triplepoint-train"
FROM debian:12 AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends git make
COPY . /source
WORKDIR /source
RUN git config --global --add safe.directory /source && make package

FROM debian:12-slim
ARG PACKAGES="triplepoint"
RUN --mount=type=bind,from=build,source=/source/build/package,target=/packages \
    apt-get update -qq \
    && for package in $PACKAGES; do set -- "$@" /packages/${package}_*.deb; done \
    && apt-get install -y -qq --no-install-recommends "$@" \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["triplepoint"]
