#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: spread_search.sh TRIPLEPOINT : plan under mpirun prints what one process prints, to the byte.
set -euo pipefail
triplepoint=$1
if ! command -v mpirun > /dev/null || [ ! -x "$(dirname "$triplepoint")/triplepoint-search" ]; then
  echo "skipped: mpirun or triplepoint-search is not there (apt install libopenmpi-dev openmpi-bin, then build)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

plan() {  # words before `triplepoint`
  "$@" "$triplepoint" plan --model gpt3-5b --cluster dgx-a100 --nodes 2 --gbs 48 --top 3 --pareto --threads 1 --format json
}
plan > "$work/alone"
for ranks in 2 3; do
  plan mpirun --oversubscribe -n "$ranks" > "$work/together" 2> "$work/said" || { cat "$work/said"; exit 1; }
  cmp "$work/alone" "$work/together"
done
echo "2 and 3 ranks print what one process prints"
