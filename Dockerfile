# vipnat's image: scripts/image, or `docker build .`. What is in it, and how to run it: docs/install.md.
#   BUILDER  has npm and a Node.js that can run it; nothing of it stays
#   BASE     is a Debian, or like one
# Both are pinned by the digest of their index of architectures: a tag may name other bytes tomorrow. CONTRIBUTING.md
# says how to move them.

ARG BUILDER=docker.io/library/node:24-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe
ARG BASE=docker.io/library/debian:trixie-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f

FROM ${BUILDER} AS build
WORKDIR /src
# Before the sources: a change of these needs no other packages.
COPY package.json package-lock.json ./
COPY scripts/setup scripts/
RUN scripts/setup build
COPY . .
# The name that `vipnat manifest` prints; package.json has the default.
ARG RELEASE_IMAGE
RUN scripts/build

# The nft that is asked where the usual one, of an older Debian, cannot read what the node's nft has written.
FROM ${BASE} AS nft
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nftables \
 && mkdir /nft \
 && cp -L /usr/sbin/nft /nft/nft.real \
 && cp -L /usr/lib/*/libnftables.so.1 /usr/lib/*/libnftnl.so.11 /usr/lib/*/libxtables.so.12 /nft/ \
 && printf '#!/bin/sh\nLD_LIBRARY_PATH=/opt/vipnat/nft exec /opt/vipnat/nft/nft.real "$@"\n' >/nft/nft \
 && chmod 755 /nft/nft \
 && dpkg-query --show --showformat '${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n' \
      nftables libnftables1 libnftnl11 libxtables12 >/nft/packages

FROM ${BASE} AS runtime
# The time of all files: docker's builder reads it.
ARG SOURCE_DATE_EPOCH
COPY scripts/strip-debian /tmp/
# What vipnat starts, beside setpriv, which every Debian has. kmod: iptables-legacy loads what the kernel lacks,
# from the node's /lib, which a privileged DaemonSet has at /host/lib. A node's nft may not read what trixie's writes:
# docs/adr/0048-nft-of-the-image.md.
RUN sed s/trixie/bookworm/ /etc/apt/sources.list.d/debian.sources >/etc/apt/sources.list.d/bookworm.sources \
 && printf '%s\n' 'Package: nftables libnftables1 libnftnl11 iptables libip4tc2 libip6tc2 libxtables12' \
      'Pin: release n=bookworm*' 'Pin-Priority: 990' >/etc/apt/preferences.d/bookworm \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      inotify-tools \
      iptables \
      kmod \
      nftables \
      tcpdump \
 && /tmp/strip-debian \
 && rm /tmp/strip-debian \
 && ln -s /opt/vipnat/vipnat.js /usr/local/bin/vipnat \
 && ln -sT /host/lib/modules /lib/modules
# The Node.js that package.json pins, whichever BUILDER has.
COPY --from=build /src/node_modules/node-linux-*/bin/node /usr/local/bin/

FROM runtime AS installed
COPY --from=nft /nft/packages /newer
RUN dpkg-query --show --showformat '${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n' >/packages \
 && cat /newer >>/packages

FROM build AS described
COPY --from=installed /packages /usr/lib/os-release /usr/local/bin/node /image/
COPY --from=installed /usr/share/doc /image/doc
RUN node_modules/.bin/node scripts/sbom.mjs /image >/sbom.json

# What `scripts/image --sbom` takes out.
FROM scratch AS sbom
COPY --from=described /sbom.json /

FROM scratch
COPY --from=runtime / /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY LICENSE /opt/vipnat/
COPY scripts/healthcheck.cjs /opt/vipnat/healthcheck.js
COPY --from=build /src/dist /opt/vipnat
COPY --from=nft /nft /opt/vipnat/nft
COPY --from=sbom /sbom.json /opt/vipnat/

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vipnat" \
      org.opencontainers.image.description="Load-balances the virtual IP of a Kubernetes control plane, and Services, in the kernel" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# Nobody: printing plans and manifests takes no rights. The manifests say runAsUser: 0, which the kernel's rules take.
USER 65532:65532
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s CMD ["node", "/opt/vipnat/healthcheck.js"]
ENTRYPOINT ["vipnat"]
CMD ["--help"]
