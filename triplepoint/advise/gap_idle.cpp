// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/advise/gap_model.h"

namespace triplepoint::advise {
namespace {

using metrics::HostCallKind;
using metrics::IdleTime;

struct IdleWords {
  int64_t IdleTime::*of;
  std::string_view cause, what, advice;
};
constexpr std::array<IdleWords, 4> idle_words = {
    {{&IdleTime::host_wait, "host", "GPUs idle until the host launches the next kernel",
      "use CUDA graphs or fewer, larger kernels; bind ranks to cores"},
     {&IdleTime::kernel_wait, "launch_gaps",
      "GPUs idle for at most 30 us at a time before kernels that had been launched",
      "use CUDA graphs or fewer, larger kernels"},
     {&IdleTime::other, unknown_cause,
      "GPUs idle although the launch of the next kernel had begun; what it waits for (another "
      "stream, an event, a copy, the launch itself) the trace does not tell",
      "look at the dependencies (triplepoint trace critical-path)"},
     {&IdleTime::unknown, unknown_cause,
      "GPUs idle before kernels whose launch the trace does not show, so the cause cannot be told",
      "trace the host's calls (activities CPU and CUDA), over whole steps"}}};

struct CallWords {
  HostCallKind kind;
  const char *cause, *in, *advice;
};
constexpr std::array<CallWords, 3> call_words = {
    {{HostCallKind::data_loader, "data_loader", "the data loader",
      "give the data loader more workers and prefetch, or faster storage"},
     {HostCallKind::allocator, "allocator", "the allocator",
      "free memory, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the allocator gives "
      "memory back and asks for it again"},
     {HostCallKind::synchronization, "synchronization", "a wait for the GPU",
      "read values of the GPU (item(), print) less often, and later than the next launches"}}};

Seconds mean_of(const std::vector<metrics::MeanStep>& ranks, int64_t IdleTime::*of,
                IdleTime metrics::MeanStep::*when) {
  double sum = 0;
  for (const metrics::MeanStep& rank : ranks)
    sum += static_cast<double>(rank.*when.*of);
  return sum / static_cast<double>(std::max<size_t>(1, ranks.size())) * unit::ns;
}

}  // namespace

void name_host_calls(const metrics::GapCalls& calls, GapPart& part, Calls of) {
  const auto words = std::ranges::find(call_words, calls.kind, &CallWords::kind);
  const char* const is = calls.kind == HostCallKind::synchronization ? "follows" : "the host is in";
  part.what += of == Calls::all_of_it
                   ? fmt::format(" while {} ", is)
                   : fmt::format("; {} of that time {} ", percent(calls.share), is);
  if (words == call_words.end()) {
    part.what += calls.name;
    return;
  }
  part.what += fmt::format("{}, mostly {}", words->in, calls.name);
  part.cause = words->cause;
  part.advice = words->advice;
}

std::vector<GapPart> parts_of_idle(const std::vector<metrics::MeanStep>& ranks,
                                   const std::optional<metrics::GapCalls>& calls) {
  std::vector<GapPart> parts;
  for (const IdleWords& words : idle_words) {
    GapPart part{.cause = std::string(words.cause),
                 .what = std::string(words.what),
                 .seen_in = "traces",
                 .cost = mean_of(ranks, words.of, &metrics::MeanStep::idle),
                 .advice = std::string(words.advice)};
    const Seconds between = mean_of(ranks, words.of, &metrics::MeanStep::between);
    if (between > 0.1 * part.cost)
      part.what += fmt::format(" ({} between steps)", time_of(between));
    const bool of_host = words.of == &IdleTime::host_wait;
    if (of_host && calls && calls->share >= most_of_idle)
      name_host_calls(*calls, part, Calls::share_of_it);
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace triplepoint::advise
