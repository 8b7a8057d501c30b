// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "triplepoint/base/statistics.h"
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
  double sum =
      sum_of(ranks, [&](const metrics::MeanStep& rank) { return as_real(rank.*when.*of); });
  return sum / as_real(std::max<size_t>(1, ranks.size())) * unit::ns;
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

namespace {

/// A step, or the time behind it.
struct Stretch {
  int64_t begin = 0, end = 0;
  bool is_long = false;
};

std::vector<Stretch> stretches_of(const run::Run& run, const metrics::StepPattern& pattern) {
  const bool between = pattern.is_pause || pattern.kind == metrics::StepPattern::Kind::pauses;
  std::vector<Stretch> all;
  std::vector<double> lengths;
  for (size_t i = 0; i + (between ? 1 : 0) < run.steps.size(); ++i) {
    const run::StepRecord& step = run.steps[i];
    const Stretch one = between
                            ? Stretch{step.end.nanoseconds(), run.steps[i + 1].begin.nanoseconds()}
                            : Stretch{step.begin.nanoseconds(), step.end.nanoseconds()};
    all.push_back(one);
    lengths.push_back(as_real(one.end - one.begin));
  }
  if (all.empty()) return all;
  const double least = median(std::move(lengths)) + 0.5 * (pattern.excess / unit::ns);
  for (Stretch& one : all)
    one.is_long = as_real(one.end - one.begin) > least;
  return all;
}

/// Nanoseconds of a region in a rank's long stretches and in the others.
struct RegionTime {
  double in_long = 0, in_others = 0;
};

std::map<std::pair<std::string, int32_t>, RegionTime> times_of_regions(
    const run::Run& run, const std::vector<Stretch>& stretches) {
  std::map<std::pair<std::string, int32_t>, RegionTime> times;
  for (const run::Span& span : run.timeline.spans) {
    const run::SpanType& type = run.timeline.types[as_size(span.type)];
    if (type.kind != run::SpanKind::pass) continue;
    const int64_t begin = span.begin.nanoseconds(), end = span.end.nanoseconds();
    auto stretch = std::ranges::upper_bound(stretches, begin, {}, &Stretch::end);
    for (; stretch != stretches.end() && stretch->begin < end; ++stretch) {
      RegionTime& time = times[{type.name, span.rank}];
      (stretch->is_long ? time.in_long : time.in_others) +=
          as_real(std::min(end, stretch->end) - std::max(begin, stretch->begin));
    }
  }
  return times;
}

}  // namespace

void name_marked_region(const run::Run& run, const metrics::StepPattern& pattern, GapPart& part) {
  constexpr double most = 0.6;
  if (run.manifest.origin != run::Origin::measured) return;
  const std::vector<Stretch> stretches = stretches_of(run, pattern);
  const auto longer = as_real(std::ranges::count_if(stretches, &Stretch::is_long));
  const double others = as_real(stretches.size()) - longer;
  if (longer == 0 || others == 0) return;
  const double excess = pattern.excess / unit::ns;
  const std::string* name = nullptr;
  double share = 0, usual = 0;
  const auto times = times_of_regions(run, stretches);
  for (const auto& [of, time] : times) {
    const double here = time.in_others / others, more = time.in_long / longer - here;
    if (more < most * excess || (name != nullptr && here >= usual)) continue;
    name = &of.first, usual = here, share = std::min(1.0, more / excess);
  }
  if (name == nullptr) return;
  part.what.erase(std::min(part.what.size(), part.what.rfind(" (")));  // guesses without marks
  part.what += fmt::format("; {} of it in the marked region \"{}\"", percent(share), *name);
  const std::string word = lower_case(*name);
  const auto has = [&](const char* text) { return contains(word, text); };
  if (has("checkpoint") || has("ckpt") || has("save")) return void(part.cause = "checkpoint");
  const auto words =
      std::ranges::find(call_words, metrics::host_call_kind(*name), &CallWords::kind);
  part.cause = words == call_words.end() ? "region" : words->cause;
  part.advice = words == call_words.end() ? "look at what this region does then" : words->advice;
}

Seconds usual_core_wait(const std::map<int32_t, Seconds>& waits) {
  std::vector<double> all = mapped(waits, [](const auto& of) { return of.second / unit::s; });
  return all.empty() ? Seconds() : lower_median(std::move(all)) * unit::s;
}

GapPart part_of_core_waits(std::string what, Seconds cost) {
  return {.cause = "processor",
          .what = std::move(what),
          .seen_in = "recording",
          .cost = cost,
          .advice =
              "give each rank a separate core: look for other programs there, how ranks are "
              "bound to cores (taskset, --bind-to), and CPU limits of the container"};
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
  double outside = 0;
  for (const metrics::MeanStep& rank : ranks)
    outside += as_real(rank.outside) / as_real(ranks.size());
  parts.push_back(
      {.cause = "outside_steps",
       .what = "kernels or copies that belong to no step run between the steps",
       .seen_in = "traces",
       .cost = outside * unit::ns,
       .advice = "see what they are (triplepoint trace breakdown), run them less often, or mark "
                 "them as steps if they are"});
  return parts;
}

}  // namespace triplepoint::advise
