// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "triplepoint/formats/readers.h"

namespace triplepoint::formats {
namespace {

struct Group {
  std::string_view why;
  std::string_view names;  // separated by blanks; a * at the end stands for any ending
};

/// Arguments of Megatron-LM (megatron/training/arguments.py, 2021 to 2025) that a performance model
/// may pass over.
constexpr std::array groups{
    Group{"length of the run, data order, data source",
          "train-iters train-samples train-tokens exit-interval exit-duration-in-mins exit-signal* "
          "iterations-to-skip skip-train full-validation multiple-validation-sets test-mode "
          "eval-iters eval-interval data-path split train-data-path valid-data-path test-data-path "
          "data-args-path per-split-data-args-path data-cache-path data-impl mock-data "
          "no-mmap-bin-files sample-rate mask-prob short-seq-prob num-workers dataloader-type "
          "reset-position-ids reset-attention-mask eod-mask-loss num-dataset-builder-threads "
          "no-create-attention-mask-in-dataloader create-attention-mask-in-dataloader "
          "object-storage-cache-path mid-level-dataset-surplus allow-ambiguous-pad-tokens "
          "s3-cache-path dataset-impl fim-* sft sft-*"},
    Group{"text of samples",
          "vocab-file merge-file vocab-extra-ids tokenizer-metadata tiktoken-* legacy-tokenizer "
          "trust-remote-code titles-data-path"},
    Group{
        "numerics: optimizer and learning rate",
        "lr lr-* warmup min-lr override-opt* use-checkpoint-opt* decoupled-lr decoupled-min-lr "
        "weight-decay start-weight-decay end-weight-decay weight-decay-incr-style clip-grad adam-* "
        "sgd-momentum muon-* init-method-std embedding-init-method-std init-method-xavier-uniform "
        "seed data-parallel-random-init loss-scale initial-loss-scale min-loss-scale "
        "loss-scale-window hysteresis norm-epsilon layernorm-epsilon apply-layernorm-1p "
        "calculate-per-token-loss attention-softmax-in-fp32 apply-query-key-layer-scaling "
        "no-query-key-layer-scaling fp16-lm-cross-entropy "
        "disable-bf16-reduced-precision-matmul qk-l2-norm softmax-type glu-linear-offset "
        "activation-func-clamp-value openai-gelu mtp-loss-scaling-factor"},
    Group{
        "positions: parts of one elementwise kernel",
        "rotary-base rotary-percent rotary-interleaved rotary-seq-len-interpolation-factor "
        "rotary-scaling-factor use-rope-scaling rope-scaling-factor rope-type no-rope-freq mscale "
        "mscale-all-dim mrope-section relative-attention-* "
        "apply-residual-connection-post-layernorm"},
    Group{"checkpoints and start-up",
          "save load save-interval persistent-save-interval save-retain-interval no-save-optim "
          "no-save-rng no-load-optim no-load-rng load-main-params-from-ckpt "
          "no-strict-fsdp-dtensor-load "
          "non-persistent-* finetune pretrained-checkpoint ckpt-* no-initialization "
          "use-checkpoint-args use-mp-args-from-checkpoint-args "
          "no-use-tokenizer-model-from-checkpoint-args exit-on-missing-checkpoint use-dist-ckpt "
          "use-persistent-ckpt-worker auto-detect-ckpt-format dist-ckpt-* no-ckpt-* async-save "
          "distrib-optim-* use-cpu-initialization init-model-with-meta-device lazy-mpu-init "
          "local-rank distributed-backend distributed-timeout-* replication replication-* "
          "disable-gloo-process-groups use-gloo-process-groups enable-gloo-process-groups "
          "moe-use-upcycling moe-upcycling-granularity dump-param-to-param-group-map "
          "pipeline-model-parallel-comm-backend tp-comm-bootstrap-backend adlr-* one-logger-* "
          "no-one-logger app-tag-run-* enable-ft-package calc-ft-timeouts config-logger-dir "
          "inprocess-* error-injection-* rerun-mode result-rejected-tracker-filename enable-msc "
          "disable-msc enable-experimental check-weight-hash-across-dp-replicas-interval"},
    Group{"logging and profiling detail",
          "log-* no-log-* tensorboard-* timing-log-* no-barrier-with-level-1-timing wandb-project "
          "wandb-entity wandb-save-dir wandb-id logging-level moe-per-layer-logging "
          "profile-step-start profile-step-end profile-ranks record-memory-history "
          "memory-snapshot-path disable-straggler-on-startup straggler-* "
          "run-workload-inspector-server no-check-for-nan-in-loss-and-grad check-for-* "
          "train-sync-interval nvtx-ranges pytorch-profiler-*"},
    Group{
        "kernel fusions and choices, part of the stack",
        "no-masked-softmax-fusion no-bias-gelu-fusion no-bias-swiglu-fusion no-bias-dropout-fusion "
        "no-rope-fusion cross-entropy-loss-fusion cross-entropy-fusion-impl "
        "use-fused-weighted-squared-relu use-te-activation-func no-persist-layer-norm "
        "no-gradient-accumulation-fusion no-gradient-reduce-div-fusion "
        "no-async-tensor-model-parallel-allreduce no-contiguous-buffers-in-local-ddp "
        "use-contiguous-buffers-in-local-ddp transformer-impl attention-backend use-flash-attn "
        "use-flash-attn-v* use-mcore-models use-legacy-models onnx-safe te-rng-tracker "
        "inference-rng-tracker deterministic-mode manual-gc manual-gc-interval no-manual-gc-eval "
        "empty-unused-memory-level high-priority-stream-groups nccl-communicator-config-path "
        "moe-permute-fusion moe-router-fusion moe-use-legacy-grouped-gemm moe-deepep-num-sms "
        "disable-symmetric-registration use-nccl-ub nccl-ub use-sharp sharp-enabled-group "
        "cuda-graph-warmup-steps cuda-graph-scope no-clone-scatter-output-in-embedding "
        "use-ring-exchange-p2p no-scatter-gather-tensors-in-pipeline distribute-saved-activations "
        "keep-fp8-transpose-cache no-batch-p2p-communication"},
    Group{"data-parallel detail below the bucket",
          "ddp-num-buckets ddp-pad-buckets-for-high-nccl-busbw ddp-average-in-collective "
          "ddp-reduce-scatter-with-fp32-accumulation no-align-grad-reduce no-align-param-gather "
          "align-param-gather overlap-param-gather-with-optimizer-step fsdp-double-buffer "
          "suggested-communication-unit-size enable-full-sharding-in-hsdp DDP-impl"},
    Group{
        "pipeline detail: moves work inside the step",
        "defer-embedding-wgrad-compute wgrad-deferral-limit "
        "microbatch-group-size-per-virtual-pipeline-stage overlap-p2p-communication-warmup-flush"},
    Group{
        "which GEMM hides a transfer",
        "tp-comm-overlap-cfg disable-tp-comm-* tp-comm-overlap-rs-dgrad disable-tp-comm-overlap-*"},
    Group{"routing: which expert, not how many",
          "moe-router-load-balancing-type moe-router-dtype moe-router-score-function "
          "moe-router-pre-softmax moe-router-num-groups moe-router-group-topk "
          "moe-router-topk-scaling-factor moe-router-topk-limited-devices "
          "moe-router-enable-expert-bias moe-router-bias-update-rate "
          "moe-router-force-load-balancing moe-router-padding-for-fp8 moe-aux-loss-coeff "
          "moe-z-loss-coeff moe-input-jitter-eps moe-token-drop-policy moe-apply-probs-on-input "
          "moe-token-dropping moe-extended-tp moe-pad-experts-for-cuda-graph-inference "
          "cache-mla-latents"},
    Group{"FP8 scaling",
          "fp8-margin fp8-interval fp8-amax-history-len fp8-amax-compute-algo fp8-recipe "
          "fp8-quantizer-factory no-fp8-wgrad fp8-param-gather fp8-e4m3 fp8-hybrid "
          "first-last-layers-bf16 num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 "
          "reuse-grad-buf-for-mxfp8-param-ag"},
    Group{
        "other programs of the same repository: inference server, retrieval, vision, RL",
        "inference-* max-tokens-to-oom flash-decode output-bert-embeddings bert-* retro-* rl-* "
        "grpo-* langrl-* perform-rl-step ict-* biencoder-* query-in-block-prob use-one-sent-docs "
        "evidence-data-path retriever-* block-data-path embedding-path indexer-* num-classes img-h "
        "img-w num-channels patch-dim classes-fraction data-per-class-fraction no-data-sharding "
        "head-lr-mult vision-* swin-* mask-type mask-factor iter-per-epoch dino-* "
        "symmetric-ar-type nccl-all-reduce-for-prefill mlp-chunks-for-prefill "
        "disable-chunked-prefill decode-only-cuda-graphs use-legacy-static-engine "
        "decoder-seq-length"},
};

template <class Visitor>
void visit_names(const Visitor& visit) {
  for (const Group& group : groups)
    for (std::string_view rest = group.names; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      visit(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

}  // namespace

bool is_irrelevant_megatron_argument(std::string_view name) {
  bool found = false;
  visit_names([&](std::string_view pattern) { found = found || matches(pattern, name); });
  return found;
}

std::vector<std::string> irrelevant_megatron_arguments() {
  std::vector<std::string> names;
  visit_names([&](std::string_view pattern) {
    if (!pattern.ends_with('*')) names.emplace_back(pattern);
  });
  return names;
}

}  // namespace triplepoint::formats
