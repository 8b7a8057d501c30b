#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# srun of four nodes with two ranks each, everyone through `triplepoint record`: one recorder per node, one run of it all.
#   slurm_test.sh TRIPLEPOINT TRAINING PYTHON FAKE_NVML
set -u
triplepoint=$1 training=$2 python=$3
export TRIPLEPOINT_NVML=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/slurm_cluster.sh"
folder=$(mktemp -d "${TMPDIR:-/tmp}/triplepoint-slurm.XXXXXX")
trap 'stop_slurm; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP

start_slurm "$folder" || exit $?
mkdir "$folder/out"
head -c 4096 /dev/zero >"$folder/meeting"
export TPT_MEETING=$folder/meeting
printf 'gpus 2\ngpu 0 power hold 200\ngpu 1 power hold 300\n' >"$folder/nvml.txt"  # of every node
export TRIPLEPOINT_FAKE_NVML=$folder/nvml.txt
gpus=$(grep -q GresTypes "$SLURM_CONF" && echo --gres=gpu:2)
# shellcheck disable=SC2086
with_us timeout 120 srun -I20 -N 4 --ntasks-per-node=2 $gpus "$triplepoint" record -o "$folder/out/job.run" -- "$training" 20 >"$folder/said" 2>"$folder/errors" &
wait $!  # and not in the foreground, so that a signal is acted on at once
code=$?
cat "$folder/errors"
[ $code = 0 ] || { echo "srun failed with $code"; cat "$folder/said"; exit 1; }
[ "$(grep -c 'of 8: recorded' "$folder/said")" = 8 ] || { echo "not all ranks were recorded:"; cat "$folder/said"; exit 1; }
"$python" "$here/check_recording.py" "$triplepoint" "$folder/out" --ranks 8 --nodes 4 --steps 20
