#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mpirun of four ranks, everyone through `triplepoint record`: one of them records, one run comes out.
#   openmpi_test.sh TRIPLEPOINT TRAINING PYTHON FAKE_NVML
set -u
triplepoint=$1 training=$2 python=$3
export TRIPLEPOINT_NVML=$4
here=$(cd "$(dirname "$0")" && pwd)
command -v mpirun >/dev/null || { echo "mpirun is not installed (apt install openmpi-bin)"; exit 77; }
mpirun --version 2>/dev/null | grep -q "Open MPI" || { echo "mpirun is not Open MPI's"; exit 77; }
folder=$(mktemp -d "${TMPDIR:-/tmp}/triplepoint-openmpi.XXXXXX")
trap '[ -n "${mpirun_pid:-}" ] && kill "$mpirun_pid" 2>/dev/null && wait "$mpirun_pid"; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP

mkdir "$folder/out"
printf 'gpus 4\ngpu 0 power hold 200\ngpu 1 power hold 300\ngpu 2 power hold 400\ngpu 3 power hold 500\n' >"$folder/nvml.txt"
export TRIPLEPOINT_FAKE_NVML=$folder/nvml.txt
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
timeout 120 mpirun -n 4 "$triplepoint" record -o "$folder/out/job.run" -- "$training" 20 >"$folder/said" 2>"$folder/errors" &
mpirun_pid=$!
wait "$mpirun_pid"
code=$?
mpirun_pid=
cat "$folder/errors"
[ $code = 0 ] || { echo "mpirun failed with $code"; cat "$folder/said"; exit 1; }
[ "$(grep -c 'of 4: recorded' "$folder/said")" = 4 ] || { echo "not all ranks were recorded:"; cat "$folder/said"; exit 1; }
"$python" "$here/check_recording.py" "$triplepoint" "$folder/out" --ranks 4 --nodes 1 --steps 20
