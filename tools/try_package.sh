#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tries the packages as a new user would: try_package.sh PACKAGES ROOT
# Makes a bare Debian 12 below ROOT (mmdebstrap; no compiler, no Python), starts the archive there, installs the wheel and the Debian
# packages, and runs README's commands. Prints seconds. Needs root.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
packages=$(cd "$1" && pwd)
mkdir -p "$2"
root=$(cd "$2" && pwd)
[ "$(id -u)" = 0 ] || { echo "try_package.sh: changing the root folder needs root; try sudo make try-package" >&2; exit 1; }

[ -e "$root/etc/debian_version" ] || mmdebstrap --variant=minbase --include=xz-utils bookworm "$root"
rm -rf "$root/try" && mkdir -p "$root/try/empty"
cp "$packages"/*.deb "$packages"/*-x86_64.tar.xz "$packages"/*.whl "$root/try"
cp "$source"/tests/readme/stand_ins/* "$root/usr/local/bin"
cp /etc/resolv.conf "$root/etc"
echo 'APT::Get::Assume-Yes "true"; APT::Install-Recommends "false"; APT::Sandbox::User "root";' >"$root/etc/apt/apt.conf.d/try"
# Nobody ends `triplepoint snapshot --every 1s` here.
python3 "$source/tests/readme/readme.py" --script "$source" | sed 's/ --every 1s//' >"$root/try/commands"

cat >"$root/try/steps" <<'STEPS'
set -eu
cd /try
now() { cut -d' ' -f1 /proc/uptime; }
step() {  # name, command
  begin=$(now)
  eval "$2" >"/try/$1.log" 2>&1 || { cat "/try/$1.log"; echo "$1 failed: $2"; exit 1; }
  echo "$begin $(now)" | awk -v name="$1" '{ printf "%-16s %6.2f s\n", name, $2 - $1 }'
}
apt-get purge -qq --autoremove triplepoint triplepoint-train >/dev/null 2>&1 || true
step archive 'tar xf triplepoint-*.tar.xz'
step archive-runs './triplepoint-*/bin/triplepoint simulate --model llama3-8b --cluster dgx-h100 --tp 2'
step update 'apt-get update'
step python 'apt install python3-venv'
step wheel 'python3 -m venv /try/venv && /try/venv/bin/pip install --no-index ./*.whl'
step wheel-result '/try/venv/bin/python -c "import triplepoint as tp; print(tp.simulate(tp.Job(model=\"llama3-8b\", cluster=\"dgx-h100\", tp=2)))"'
step install 'apt install ./triplepoint_*.deb'
step first-result 'triplepoint simulate --model llama3-8b --cluster dgx-h100 --tp 2'
cd /try/empty
step readme 'sh -e /try/commands'
cd /try
step install-train 'apt install ./triplepoint-train_*.deb'
step train 'triplepoint train --tp 2 --pp 2 --steps 3'
step man-page 'test -s /usr/share/man/man1/triplepoint-plan.1 || test -s /usr/share/man/man1/triplepoint-plan.1.gz'
STEPS
# shellcheck disable=SC2016  # the inner shell expands $0
exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" && exec chroot "$0" sh /try/steps' "$root"
