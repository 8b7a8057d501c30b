#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What only a process can show: scenarios.sh PROGRAM SCENARIO. 77 means that the scenario cannot be played here.
set -u
program=$1
scenario=$2
scratch=$(mktemp -d)
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

fail() { echo "FAILED: $*" >&2; exit 1; }
expect_code() { [ "$2" -eq "$1" ] || fail "exit code $2 instead of $1: $3"; }
runs() { find "$1" -name '*.run' 2>/dev/null | wc -l; }
half_written() { find . -type f ! -name '*.run' ! -name 'study.json' ! -name 'results.*' ! -name 'report.html' ! -path '*/runs/*.html' ! -name 'err' ! -name 'out' | head -3; }

# Ctrl-C keeps what is finished; the same call goes on.
interrupt() {
  "$program" characterize paper/h200 -o study --threads 1 >out 2>err &
  local pid=$!
  for _ in $(seq 200); do
    [ "$(runs study)" -ge 2 ] && break
    sleep 0.02
  done
  kill -INT "$pid"
  wait "$pid"
  local code=$?
  if [ "$code" -eq 0 ]; then echo "the study was finished before the signal came"; return 77; fi
  expect_code 130 "$code" "an interrupted study"
  grep -q "To continue" err || fail "does not say how to go on: $(cat err)"
  local kept
  kept=$(runs study)
  [ "$kept" -ge 2 ] || fail "finished jobs were lost"
  [ -z "$(half_written)" ] || fail "half written files: $(half_written)"
  "$program" characterize paper/h200 -o study --threads 1 >out 2>err
  expect_code 0 $? "going on"
  grep -q "$kept from before" out || fail "played finished jobs again: $(tail -1 out)"
  "$program" characterize paper/h200 -o whole --threads 2 >/dev/null 2>&1
  cmp study/results.json whole/results.json || fail "an interrupted study says something else than a whole one"
}

# Verbs with nothing to keep end at once, those with something end soon; both say so by their code.
stopped() {
  local pid
  "$program" simulate --model llama3-8b --cluster hgx-h200 --nodes 64 --tp 4 --gbs 4096 --duration 700h >out 2>err &
  pid=$!
  sleep 1
  kill -INT "$pid"
  wait "$pid"
  expect_code 130 $? "a stopped simulation"
  "$program" characterize suite/training-v1 --cluster hgx-h200:8 --threads 1 >out 2>err &
  pid=$!
  sleep 1
  kill -INT "$pid"
  wait "$pid"
  expect_code 130 $? "a stopped suite"
  grep -q "interrupted" err || fail "does not say that it was interrupted: $(cat err)"
}

# A write that fails as on a full disk is an error in one sentence.
full_disk() {
  (trap '' XFSZ; ulimit -f 20; "$program" characterize paper/mi250 -o study >out 2>err)
  expect_code 1 $? "a full disk"
  grep -q "^triplepoint: " err || fail "no sentence: $(cat err)"
  [ -z "$(half_written)" ] || fail "half written files: $(half_written)"
}

read_only() {
  mkdir folder
  chmod a-w folder
  if touch folder/probe 2>/dev/null; then echo "this user may write anywhere"; return 77; fi
  "$program" characterize paper/mi250 -o folder/study >out 2>err
  expect_code 1 $? "a read-only folder"
  grep -q "folder" err || fail "does not name the folder: $(cat err)"
}

# `triplepoint show models | head -1` is nobody's error to die of.
closed_pipe() {
  "$program" show paper/all --format json 2>err | head -1 >/dev/null
  expect_code 0 "${PIPESTATUS[0]}" "a reader that leaves"
  [ -s err ] && fail "complains about it: $(cat err)"
  "$program" show models >/dev/full 2>err
  expect_code 1 $? "output that cannot be written"
}

completion() {
  "$program" completion bash >script
  bash -n script || fail "bash does not understand its script"
  # shellcheck disable=SC1091
  source ./script
  PATH="$(dirname "$program"):$PATH"
  COMP_WORDS=(triplepoint simulate --model gpt3)
  COMP_CWORD=3
  _triplepoint
  [[ " ${COMPREPLY[*]} " == *" gpt3-175b "* ]] || fail "does not complete gpt3-175b: ${COMPREPLY[*]}"
  touch own.toml
  COMP_WORDS=(triplepoint simulate --model ow)
  _triplepoint
  [[ " ${COMPREPLY[*]} " == *" own.toml "* ]] || fail "does not complete own.toml: ${COMPREPLY[*]}"
  COMP_WORDS=(triplepoint simulate --tp "")
  _triplepoint
  [ ${#COMPREPLY[@]} -eq 0 ] || fail "completes a number by ${COMPREPLY[*]}"
  COMP_WORDS=(triplepoint sim)
  COMP_CWORD=1
  _triplepoint
  [[ "${COMPREPLY[*]}" == "simulate" ]] || fail "does not complete sim: ${COMPREPLY[*]}"
  command -v zsh >/dev/null || return 0
  "$program" completion zsh >script.zsh
  zsh -n script.zsh || fail "zsh does not understand its script"
}

# A folder as Zeus writes it.
zeus() {
  mkdir zeus
  printf '%s\n' time,power0,power1 1700000000.0,300,310 1700000000.1,305,312 1700000000.2,303,311 >zeus/power.csv
  printf '%s\n' start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy 1700000000,step,0.2,60,62 >zeus/windows.csv
  "$program" import zeus -o runs >out 2>err
  expect_code 0 $? "an import: $(cat err)"
  grep -q "a recording of Zeus: 2 GPUs, 2 series, 1 steps" out || fail "Zeus: $(cat out err)"
  "$program" report runs/zeus.run -o page.html >out 2>err
  expect_code 0 $? "a page of a recording: $(cat err)"
  grep -q "Zeus" page.html || fail "the page does not say where the run comes from"
}

"$scenario"
