#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every job of the paper's study, played on one thread and on two, gives the same bytes.
set -eu
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for threads in 1 2; do
  "$program" characterize paper/all -o "$work/$threads" --threads $threads --format json > "$work/$threads.json"
done
cmp "$work/1/results.json" "$work/2/results.json"
cmp "$work/1/results.csv" "$work/2/results.csv"
cd "$work/1/runs"
for run in *.run; do cmp "$run" "$work/2/runs/$run"; done
echo "$(ls | wc -l) runs are the same"
