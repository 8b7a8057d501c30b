# SPDX-License-Identifier: Apache-2.0
# The main program in Debian 12: docker build -t triplepoint . ; with the trainer: --build-arg PACKAGES="triplepoint triplepoint-train"
FROM debian:12 AS build
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends git make
COPY . /source
WORKDIR /source
RUN git config --global --add safe.directory /source && make package

FROM debian:12-slim
ARG PACKAGES="triplepoint"
COPY --from=build /source/build/package/*.deb /packages/
RUN apt-get update -qq \
    && for package in $PACKAGES; do set -- "$@" /packages/${package}_*.deb; done \
    && apt-get install -y -qq --no-install-recommends "$@" \
    && apt-get clean && rm -rf /packages /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["triplepoint"]
