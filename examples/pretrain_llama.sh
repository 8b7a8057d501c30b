# SPDX-License-Identifier: Apache-2.0
# A Megatron-LM launch line: triplepoint import examples/pretrain_llama.sh --cluster hgx-h100 --nodes 8
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py \
  --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 \
  --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 \
  --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
  --untie-embeddings-and-output-weights --vocab-size 128256 --make-vocab-size-divisible-by 128 \
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --sequence-parallel \
  --micro-batch-size 1 --global-batch-size 128 --bf16 --use-distributed-optimizer --use-flash-attn
