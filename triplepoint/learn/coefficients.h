// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "triplepoint/spec/job.h"

namespace triplepoint::learn {

/// One physical property in which machines and their software differ from what is shipped, and that
/// could be measured alone.
struct Coefficient {
  std::string_view name;  // "in_context"; key of files
  std::string_view what;  // "time of kernels within a step"
  // Scales what the coefficient names in the job, so that it takes longer where the logarithm is
  // above zero. Shares of a peak end at 1.
  void (*apply)(double log_factor, spec::Job&);
};

inline constexpr std::size_t coefficient_count = 13;
std::span<const Coefficient, coefficient_count> coefficients();

/// ln(factor) of each coefficient, in their order; 0 is what is shipped.
using LogFactors = std::array<double, coefficient_count>;

/// The job on a machine, and under a software, that differs so.
spec::Job scaled(spec::Job, const LogFactors&);

/// The job where everything takes exp(log_factor) times as long: kernels, transfers and the host.
spec::Job stretched(spec::Job, double log_factor);

/// What of a run was timed: a step; or, of a rank's kernels in one step, matrix products and
/// attention; or norms, elementwise kernels and copies (metrics::KernelSeconds), mean over ranks.
enum class TimeOf : uint8_t { step, compute, memory };
inline constexpr std::array<std::string_view, 3> time_names = {"step", "compute", "memory"};

/// ln(seconds) at thermal steady state; nothing where the job does not fit in memory, a device
/// would shut down or there are no such kernels.
std::optional<double> log_time(const spec::Job&, TimeOf);
std::optional<double> log_step_time(const spec::Job&);

/// d ln t / d ln(factor) of every coefficient, by differences towards longer times:
///
///   s_k = (ln t(h e_k) - ln t(0)) / h
///
/// h is so long that steps of the clock, which a power limit sets, do not matter, and that a host
/// shows that is hidden behind its device and may be much slower. `log_seconds`: ln t(0).
LogFactors sensitivities(const spec::Job&, double log_seconds, TimeOf = TimeOf::step);

/// What one job differs in from another, as far as a prediction's error may depend on it: sizes by
/// their log2 (recompute by 0, 1, 2: none, selective, full), and words.
inline constexpr std::array<std::string_view, 13> size_knobs = {
    "microbatch", "tensor",   "pipeline", "virtual",    "context", "expert",   "replicas",
    "nodes",      "sequence", "batch",    "parameters", "active",  "recompute"};
inline constexpr std::array<std::string_view, 6> word_knobs = {"model",     "gpu",      "stack",
                                                               "precision", "sharding", "task"};

struct Knobs {
  std::array<double, size_knobs.size()> sizes{};
  std::array<std::string, word_knobs.size()> words;
  friend bool operator==(const Knobs&, const Knobs&) = default;
};

Knobs knobs_of(const spec::Job&);

}  // namespace triplepoint::learn
