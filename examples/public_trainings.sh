#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# How long five public trainings take, and what they draw at the site, as predicted: days and MWh with their 80 % intervals.
#
# Tokens, batch and, where they are published, GPUs and layouts are inputs; what a training took is none. Where a paper states no number of
# GPUs or no layout for a model, the line says "assumed". Sources: Llama 2 (arXiv 2307.09288, table 1), Llama 3 (arXiv 2407.21783, table 4 and
# section 3.3), BLOOM (arXiv 2211.05100, section 3).
#
#     examples/public_trainings.sh [further flags, as --pue 1.1]
tp="${TRIPLEPOINT:-triplepoint}"

train() {
  echo "$1"
  shift
  "$tp" simulate "$@" | grep -A3 -E '^(step time|out of memory|Bill)' | grep -E '^(step time|out of memory|Bill)'
  echo
}

train "Llama-2 70B, 2T tokens, 2,000 A100 80GB (rounded to 2,048), TP8 PP4 assumed" --model llama2-70b --cluster dgx-a100 --nodes 256 \
  --tp 8 --pp 4 --vpp 5 --gbs 1024 --sequence-parallel --overlap dp --tokens 2T "$@"
train "Llama-3 8B, 15T tokens, 1,024 H100 and FSDP assumed" --model llama3-8b --cluster dgx-h100 --nodes 128 \
  --sharding parameters --gbs 2048 --tokens 15T "$@"
train "Llama-3 70B, 15T tokens, 4,096 H100 and TP8 PP4 assumed" --model llama3-70b --cluster dgx-h100 --nodes 512 \
  --tp 8 --pp 4 --vpp 5 --gbs 2048 --sequence-parallel --overlap dp --tokens 15T "$@"
train "Llama-3 405B, 15.6T tokens, 16,384 H100, TP8 PP16 DP128; norms recomputed: assumed, since without 85 of 80 GiB are predicted" --model llama3-405b --cluster dgx-h100 --nodes 2048 \
  --tp 8 --pp 16 --layers-per-stage 7,8,8,8,8,8,8,8,8,8,8,8,8,8,8,7 --gbs 2048 --sequence-parallel --overlap dp \
  --recompute selective --recompute-modules layernorm --tokens 15.6T "$@"
train "BLOOM-176B, 366B tokens, 384 A100 80GB, TP4 PP12 DP8, microbatch 2" --model bloom-176b --cluster jean-zay-a100 --nodes 48 \
  --tp 4 --pp 12 --layers-per-stage 5,6,6,6,6,6,6,6,6,6,6,5 --mbs 2 --gbs 2048 --recompute full --tokens 366B "$@"
