#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the packages named which are missing. "nodejs=node" asks for the package only if there is no program `node`.
set -eu

missing=
for word in "$@"; do
  package=${word%%=*}
  program=${word#"$package"}
  if [ -n "$program" ] && command -v "${program#=}" >/dev/null 2>&1; then continue; fi
  if dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then continue; fi
  missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "missing:$missing (this system has no apt-get to install them); install what they are called here" >&2
  exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "installing:$missing"
$sudo apt-get update -qq
# Errors go to standard error; what is unpacked would hide them.
# shellcheck disable=SC2086  # one word per package
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
