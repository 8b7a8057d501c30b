#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#SBATCH --nodes=2 --gpus-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
M=${M:-7B}; TP=$((1 << 1))
usage() { echo "usage: $0"; exit 1; }
case $M in 70B|8B) L=80 ;; (7B) L=32 ;; *) usage ;; esac
for i in 1 2; do if [ $i -eq 2 ]; then A+=(--num-layers $L); fi; done
if [[ -n $WANDB && $TP -gt 1 ]]; then E="--wandb"; elif ! [ -e x ]; then E=; fi
read -r -d '' D << EOF
--hidden-size 4096 --num-attention-heads 32
EOF
MODEL=(
  --seq-length 4096 --max-position-embeddings 4096   # the length
  --micro-batch-size 1 --global-batch-size 64
)
torchrun --nproc_per_node 8 --nnodes ${SLURM_NNODES:-2} pretrain_gpt.py "${MODEL[@]}" "${A[@]}" $D $E \
  --tensor-model-parallel-size $TP --bf16 --hidden-size 4096 --num-attention-heads 32
