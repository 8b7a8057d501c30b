#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks ARM64 packages of this machine's Debian, and what they depend on, below FOLDER: arm64_sysroot.sh FOLDER PACKAGES...
# Nothing of it is installed: no script of a package runs, and the machine's own packages stay as they are.
set -eu
folder=$1
shift
# shellcheck source=/dev/null
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
echo "unpacking the ARM64 libraries into $folder"
mmdebstrap --quiet --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --variant=extract --arch=arm64 --include="$(echo "$@" | tr ' ' ',')" "$release" "$folder"
# Links such as libm.so -> /lib/aarch64-linux-gnu/libm.so.6 would lead to the machine's own folders.
find "$folder/usr/lib/aarch64-linux-gnu" -maxdepth 1 -type l -lname '/*' | while read -r link; do
  ln -sf "../../..$(readlink "$link")" "$link"
done
