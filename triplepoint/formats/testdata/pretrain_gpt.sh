#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A Megatron-LM launch script as people write them.
#SBATCH --nodes=8
#SBATCH --gres=gpu:h100:8

export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-8}
WORLD_SIZE=$(($GPUS_PER_NODE * $NNODES))
TP=4; PP=2
CHECKPOINT=/checkpoints/$(date +%F)   # where they go

DISTRIBUTED_ARGS=(
  --nproc_per_node $GPUS_PER_NODE
  --nnodes $NNODES
  --master_port 6000
)
MODEL_ARGS=(
  --num-layers 32 --hidden-size 4096   # a small one
  --ffn-hidden-size 14336
  --num-attention-heads 32
  --group-query-attention --num-query-groups 8
  --seq-length 4096 --max-position-embeddings 4096
  --swiglu --normalization RMSNorm --disable-bias-linear
  --untie-embeddings-and-output-weights
  --position-embedding-type rope
  --attention-dropout 0 --hidden-dropout 0
  --tokenizer-type Llama2Tokenizer --tokenizer-model "$CHECKPOINT/my tokenizer.model"
)
TRAINING_ARGS="--micro-batch-size 1 --global-batch-size $((WORLD_SIZE * 4)) --bf16 \
  --use-distributed-optimizer --overlap-grad-reduce --train-iters 500 --lr 1e-4"
TRAINING_ARGS+=" --recompute-granularity full --recompute-method block --recompute-num-layers 4"

torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
  "${MODEL_ARGS[@]}" \
  ${TRAINING_ARGS} \
  --tensor-model-parallel-size $TP \
  --pipeline-model-parallel-size=$PP \
  --sequence-parallel \
  --save "$CHECKPOINT"
