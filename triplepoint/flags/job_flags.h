// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/model.h"

#include "triplepoint/flags/arguments.h"
#include "triplepoint/flags/launch_flags.h"
#include "triplepoint/learn/calibration.h"

namespace triplepoint::flags {

/// Megatron's flags for the sizes of a model: on top of a model that is named otherwise, or alone.
class ModelFlags {
 public:
  Arguments arguments();
  bool given() const;
  /// Keys of launch files that they replace.
  std::set<std::string, std::less<>> keys() const;

  /// A Llama of these sizes: SwiGLU, RMSNorm, rotary positions, no biases, untied embeddings.
  /// `sequence_length` is that of --seq-length. Fails if a size is missing.
  Result<spec::Model> model(std::optional<int64_t> sequence_length) const;

  /// Sets the sizes that were given; a changed model is named "BASE-custom". What follows from a
  /// size where nothing else was said follows again: heads of keys and values from heads, where
  /// each head has its own, and the width of a head from hidden size and heads.
  Result<void> change(spec::Model&) const;

 private:
  std::optional<int64_t> layers_, hidden_, ffn_, heads_, groups_, kv_channels_, vocabulary_;
};

/// A job told by flags, alone or on top of a file. What was not said stays as the file has it, or
/// takes the default that docs/cli.md lists; the job's first note says which did.
class JobFlags {
 public:
  Arguments arguments();
  /// For a search that chooses the layout: `given` is told each flag of the layout, and its text.
  using GivenFlag = std::function<void(const std::string& name, std::string_view text)>;
  Arguments arguments_of_search(const GivenFlag& given);
  Result<spec::Job> job(const spec::Library& library) const;
  /// The same without what own runs taught.
  Result<spec::Job> job_as_shipped(const spec::Library& library) const;

  /// What a job begins with if no file is named, as a job.toml; without it flags must name a model
  /// and a cluster.
  void begin_with(std::string job_text) { beginning_ = std::move(job_text); }
  /// Whether the flags name a file.
  bool has_file() const { return !file_.empty(); }
  const std::string& file() const { return file_; }
  /// Whether the flags say anything of how ranks are split.
  bool has_layout() const;
  /// What own runs taught, of --with; job() has it. Nothing without the flag.
  Result<std::optional<learn::Calibration>> own_runs() const;
  const std::optional<std::string>& own_runs_folder() const { return with_; }
  /// A job from elsewhere, with what own runs taught.
  Result<spec::Job> with_own_runs(spec::Job) const;

  const std::optional<std::string>& cluster() const { return cluster_; }
  /// What --model replaces in launch files.
  static std::set<std::string, std::less<>> keys_of_model();
  /// Whether more was said of a job than its cluster.
  bool name_a_job() const;

 private:
  Arguments inputs();
  Arguments parallelism();
  Arguments batch();
  Arguments memory();
  Arguments schedule_and_overlap();
  Arguments environment();

  Result<spec::StatedJob> start(const spec::Library& library) const;
  std::set<std::string, std::less<>> keys_set() const;
  Result<formats::ImportHints> hints() const;
  Result<void> choose_model(const spec::Library& library, spec::StatedJob& stated) const;
  Result<void> choose_inputs(const spec::Library& library, spec::StatedJob& stated) const;
  void set_sizes(spec::StatedJob& stated) const;
  void set_virtual_stages(spec::Plan& plan) const;
  void set_memory_savings(spec::StatedJob& stated) const;
  void set_precision(spec::StatedJob& stated) const;
  Result<void> set_overlap(spec::Plan& plan) const;
  void set_order(spec::Job& job) const;
  void set_environment(spec::Job& job) const;
  void set_fabric(spec::ScaleOut& fabric) const;

  ModelFlags sizes_;
  LaunchFlags launch_;
  std::string file_, beginning_;
  std::set<spec::JobSetting> searched_;  // what a search will choose
  std::optional<std::string> model_, cluster_, stack_, optimizer_, overlap_, records_, with_;
  std::optional<int64_t> nodes_, tp_, pp_, cp_, ep_, expert_tp_, vpp_;
  std::optional<int64_t> mbs_, gbs_, seq_, recompute_layers_, lora_rank_;
  std::optional<double> activation_offload_;
  std::optional<spec::Sharding> sharding_;
  std::optional<spec::Recompute> recompute_;
  std::vector<spec::RecomputeModule> recompute_modules_;
  std::optional<spec::Precision> precision_;
  std::optional<spec::Task> task_;
  std::optional<spec::RecordLayout> record_layout_;
  std::optional<spec::RankOrder> rank_order_;
  std::optional<spec::Cooling> cooling_;
  std::optional<spec::FabricKind> fabric_;
  std::optional<double> oversubscription_;
  std::optional<spec::Schedule> schedule_;
  std::optional<std::vector<int64_t>> placement_, layers_per_stage_;
  std::optional<Celsius> ambient_;
  std::optional<Watts> power_limit_;
  std::optional<uint64_t> seed_;
  bool sequence_parallel_ = false, fp8_attention_ = false;
};

/// The flags that say what, where, how large, which layout and which conditions, sizes of 1 left
/// out. What flags cannot say (the prefetch of FSDP, another chassis) is not in them.
FlagTexts flags_of(const spec::Job&);

}  // namespace triplepoint::flags
