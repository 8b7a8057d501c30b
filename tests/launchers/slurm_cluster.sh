# SPDX-License-Identifier: Apache-2.0
# A Slurm cluster of four nodes on this machine, for the length of a test. To be sourced by bash:
#   start_slurm FOLDER     writes its configuration there, starts it, exports SLURM_CONF; 77 if it cannot
#   stop_slurm             ends all that was started, jobs included
# Everything lives in FOLDER, munge too; nothing of the system's is touched. Slurm wants to be started by root.

slurm_missing() {
  for program in munged slurmctld slurmd srun sinfo scontrol; do
    command -v "$program" >/dev/null || { echo "$program is not installed (apt install slurm-wlm munge)"; return 0; }
  done
  [ "$(id -u)" = 0 ] || { echo "a cluster of one's own must be started by root"; return 0; }
  return 1
}

write_slurm_conf() {  # FOLDER FIRST_PORT
  local folder=$1 port=$2 gpus=""
  for k in 0 1; do
    mknod "$folder/gpu$k" c 1 3 2>/dev/null && gpus="gpu:2"  # stands for a GPU: gives jobs CUDA_VISIBLE_DEVICES
  done
  [ -n "$gpus" ] && echo "NodeName=n[1-4] Name=gpu File=$folder/gpu[0-1]" >"$folder/gres.conf"
  cat >"$folder/slurm.conf" <<CONF
ClusterName=triplepoint
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
FirstJobId=$port
SlurmdParameters=config_overrides
${gpus:+GresTypes=gpu}
NodeName=n[1-4] NodeAddr=127.0.0.1 NodeHostname=$(hostname -s) Port=[$((port + 1))-$((port + 4))] CPUs=8 RealMemory=1000 ${gpus:+Gres=$gpus} State=UNKNOWN
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=60 State=UP
CONF
}

# A daemon that ends when this script does, even if the script is killed.
with_us() {
  if command -v setpriv >/dev/null; then exec setpriv --pdeathsig TERM "$@"; else exec "$@"; fi
}

start_slurm() {
  slurm_folder=$1
  if slurm_missing; then return 77; fi
  mkdir -p "$slurm_folder/state" "$slurm_folder"/spool.n{1,2,3,4}
  chmod 755 "$slurm_folder"
  write_slurm_conf "$slurm_folder" $((20000 + $$ % 20000))
  export SLURM_CONF=$slurm_folder/slurm.conf
  dd if=/dev/urandom of="$slurm_folder/munge.key" bs=128 count=1 2>/dev/null
  chmod 400 "$slurm_folder/munge.key"
  with_us munged --foreground --force --socket="$slurm_folder/munge.socket" --key-file="$slurm_folder/munge.key" \
    --pid-file="$slurm_folder/munged.pid" --log-file="$slurm_folder/munged.log" --seed-file="$slurm_folder/munged.seed" \
    >"$slurm_folder/munged.out" 2>&1 &
  for _ in $(seq 50); do [ -S "$slurm_folder/munge.socket" ] && break; sleep 0.1; done
  with_us slurmctld -D -f "$SLURM_CONF" >"$slurm_folder/slurmctld.out" 2>&1 &
  for node in n1 n2 n3 n4; do
    with_us slurmd -D -N $node -f "$SLURM_CONF" >"$slurm_folder/slurmd.$node.out" 2>&1 &
  done
  for _ in $(seq 150); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null | head -1)" = 4 ] && return 0
    sleep 0.2
  done
  echo "the cluster of Slurm did not come up:"
  tail -n 5 "$slurm_folder"/*.out "$slurm_folder"/*.log 2>/dev/null
  return 77
}

# Our own processes are those with our SLURM_CONF in their environment: daemons, steps and their tasks.
slurm_processes() {
  local process
  for process in /proc/[0-9]*; do
    [ "${process#/proc/}" = $$ ] && continue
    tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qx "SLURM_CONF=$SLURM_CONF" && echo "${process#/proc/}"
  done
}

stop_slurm() {
  [ -n "${SLURM_CONF:-}" ] || return 0
  local signal own
  for signal in TERM TERM KILL; do
    own=$(slurm_processes | grep -vx "$BASHPID")
    [ -z "$own" ] && break
    # shellcheck disable=SC2086
    kill -$signal $own 2>/dev/null
    sleep 1
  done
}
