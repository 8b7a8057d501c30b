// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/plan.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/formats/key_table.h"
#include "triplepoint/formats/library_cache.h"
#include "triplepoint/formats/settings.h"

namespace triplepoint::formats {

/// Which key of a format a diagnosis of the job is about, so that it gets a line.
struct KeyOfCode {
  spec::DiagnosisCode code;
  std::string_view key;
};

/// Fills in defaults and joins what was found in the file with what spec::diagnose says of the job;
/// what it calls inert becomes a note.
Result<Imported> assemble(Settings& settings, const spec::Library& library, spec::StatedJob stated,
                          std::span<const KeyOfCode> keys);

/// Accounts for every key that was not read: without effect by the table, told, refused, ignored
/// because the user says so; any other is an error.
void report_unknown_keys(Settings& settings, const KeyTable& table);

/// What the first key that the table refuses says: where what is required is missing, it is the
/// better reason.
std::optional<std::string> first_refused(const Settings& settings, const KeyTable& table);

/// Layers of each stage when the first or last has its own number; nothing if the rest cannot be
/// shared evenly.
std::optional<std::vector<int64_t>> uneven_stages(int64_t num_layers, int64_t stages,
                                                  std::optional<int64_t> first,
                                                  std::optional<int64_t> last);

/// Which layers have experts, from the setting `key`: 1, every n-th by a number, or
/// "([0]*3+[1]*58)" as Megatron writes it. Other orders than dense ones first are noted as an
/// error.
void read_expert_layers(Settings& settings, std::string_view key, spec::Model& model);

/// How context ranks exchange keys and values, from the setting `key`. Its list has one word per
/// layer; layers are alike here.
spec::ContextExchange read_context_exchange(Settings& settings, std::string_view key);

/// What decides how many bytes an optimizer keeps of a parameter, besides its name.
struct OptimizerContext {
  spec::Precision precision = spec::Precision::bf16;
  bool half_precision_weights = true;         // NeMo megatron_amp_O2; false: fp32 weights
  bool sharded_parameters = false;            // FSDP
  std::optional<double> gradient_sync_bytes;  // grad_sync_dtype, fsdp_grad_reduce_dtype
};

/// The optimizer of the library that stands for one which NeMo or Megatron knows by `name`; nothing
/// for other names.
///
/// Differences from the library's bytes: fp32 weights are their own master copy (4 + 4 + 8 bytes);
/// the distributed optimizers reduce gradients in the buffer they accumulate in, so that its type
/// is that of the wire; 16-bit remainders exist for bf16 only; sgd keeps one moment.
std::optional<Result<spec::OptimizerState>> find_optimizer(LibraryCache& cache,
                                                           std::string_view name,
                                                           const OptimizerContext& context);

/// Tokens of a tokenizer before padding, by its name in launch files ("GPT2BPETokenizer",
/// "meta-llama/Meta-Llama-3-70B"); letters of either case.
std::optional<int64_t> vocabulary_of(std::string_view tokenizer);

}  // namespace triplepoint::formats
