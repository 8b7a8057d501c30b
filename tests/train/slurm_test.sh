#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A study measured by sbatch on a real Slurm of four nodes on this machine, with a made-up trainer: rows of what ran, of what
# crashed, and nothing done twice.
#   slurm_test.sh TRIPLEPOINT PYTHON
set -u
triplepoint=$1 python=$2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../launchers/slurm_cluster.sh"
folder=$(mktemp -d "${TMPDIR:-/tmp}/triplepoint-slurm.XXXXXX")
trap 'stop_slurm; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP

start_slurm "$folder" || exit $?
command -v mpirun >/dev/null || { echo "mpirun is not installed (apt install openmpi-bin)"; exit 77; }
export TRIPLEPOINT_TRAINER=$here/fake_trainer.py
cat >"$folder/study.toml" <<TOML
[study]
title = "By Slurm"
[defaults]
cluster = "laptop"
stack = "triplepoint-train"
model = "tiny-llama"
[defaults.plan]
global_batch_size = 16
precision = "fp32"
[[job]]
name = "good"
tensor_parallel_size = 2
[[job]]
name = "crash"
pipeline_parallel_size = 2
TOML
fail() { echo "$1"; cat "$folder"/out/logs/* 2>/dev/null; exit 1; }
measure() { "$triplepoint" characterize "$folder/study.toml" --measure --launcher slurm --steps 3 --warmup 1 -o "$folder/out" --pages none --format json; }
measure >"$folder/first.json" || fail "the study failed"
"$python" - "$folder" <<'PY' || fail "the results are not what ran"
import json, sys
jobs = {job["name"]: job for job in json.load(open(sys.argv[1] + "/first.json"))["jobs"]}
assert jobs["good"]["verdict"] == "ok", jobs["good"]
assert jobs["crash"]["verdict"] == "failed", jobs["crash"]
assert "lost its mind" in jobs["crash"]["diagnoses"][-1]["what"], jobs["crash"]["diagnoses"]
PY
[ -e "$folder"/out/runs/good.run ] || fail "no run of the good job"
submitted=$(ls "$folder"/out/work/*.done | wc -l)
measure >"$folder/second.json" || fail "the second call failed"
cmp "$folder/first.json" "$folder/second.json" || fail "the second call has other results"
[ "$(ls "$folder"/out/work/*.done | wc -l)" = "$submitted" ] || fail "something was measured twice"
