// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/kernel_class.h"

// How many seconds of which kernels does a rank run?

#include <algorithm>
#include <array>
#include <cstddef>

#include "triplepoint/base/text.h"

#include "triplepoint/run/export.h"
#include "triplepoint/run/issued.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {
namespace {

/// Whole nanoseconds, so that no order of summing changes a sum.
struct Sums {
  std::array<int64_t, kernel_class_count> nanoseconds{};
  int64_t waiting = 0;

  void add(const Sums& other, int64_t times) {
    for (size_t i = 0; i < nanoseconds.size(); ++i)
      nanoseconds[i] += times * other.nanoseconds[i];
    waiting += times * other.waiting;
  }
};

class Counter {
 public:
  explicit Counter(const run::Timeline& timeline) : timeline_(timeline) {
    for (const run::SpanType& type : timeline.types)
      classes_.push_back(classify(type));
    for (const run::Pattern& pattern : timeline.patterns)
      patterns_.push_back(of_pattern(pattern));
  }

  std::vector<Sums> of_ranks() const {
    std::vector<Sums> ranks(as_size(timeline_.num_ranks));
    for (const run::Span& span : timeline_.spans)
      add(ranks[as_size(span.rank)], span);
    for (const run::PatternInstance& instance : timeline_.instances)
      ranks[as_size(instance.rank)].add(patterns_[as_size(instance.pattern)], 1);
    return ranks;
  }

 private:
  void add(Sums& sums, const run::Span& span) const {
    const KernelClass kernel = classes_[as_size(span.type)];
    if (kernel == KernelClass::none) return;
    sums.nanoseconds[as_size(kernel)] += span.end.nanoseconds() - span.begin.nanoseconds();
    sums.waiting += run::whole_nanoseconds(span.wait);
  }

  Sums of_pattern(const run::Pattern& pattern) const {
    Sums all;
    for (const run::PatternPiece& piece : pattern.pieces) {
      Sums once;
      for (const run::Span& span : piece.spans)
        add(once, span);
      all.add(once, piece.repeat);
    }
    return all;
  }

  const run::Timeline& timeline_;
  std::vector<KernelClass> classes_;  // by type
  std::vector<Sums> patterns_;
};

KernelSeconds in_seconds(const Sums& sums) {
  const auto of = [&](KernelClass kernel) {
    return as_real(sums.nanoseconds[as_size(kernel)]) * unit::ns;
  };
  return {.compute = of(KernelClass::compute),
          .send_recv = of(KernelClass::send_recv),
          .all_gather = of(KernelClass::all_gather),
          .reduce_scatter = of(KernelClass::reduce_scatter),
          .all_reduce = of(KernelClass::all_reduce),
          .all_to_all = of(KernelClass::all_to_all),
          .memory = of(KernelClass::memory),
          .other = of(KernelClass::other),
          .waiting = as_real(sums.waiting) * unit::ns};
}

KernelClass class_of(spec::Collective collective) {
  switch (collective) {
    case spec::Collective::all_reduce:
      return KernelClass::all_reduce;
    case spec::Collective::all_gather:
      return KernelClass::all_gather;
    case spec::Collective::reduce_scatter:
      return KernelClass::reduce_scatter;
    case spec::Collective::all_to_all:
      return KernelClass::all_to_all;
    case spec::Collective::broadcast:
    case spec::Collective::send_recv:
      return KernelClass::send_recv;
  }
  return KernelClass::other;
}

}  // namespace

Seconds KernelSeconds::communication() const {
  return send_recv + all_gather + reduce_scatter + all_reduce + all_to_all;
}

Seconds KernelSeconds::total() const {
  return compute + communication() + memory + other;
}

KernelSeconds& KernelSeconds::operator+=(const KernelSeconds& more) {
  compute += more.compute;
  send_recv += more.send_recv;
  all_gather += more.all_gather;
  reduce_scatter += more.reduce_scatter;
  all_reduce += more.all_reduce;
  all_to_all += more.all_to_all;
  memory += more.memory;
  other += more.other;
  waiting += more.waiting;
  return *this;
}

KernelSeconds& KernelSeconds::operator*=(double factor) {
  for (Seconds* part : {&compute, &send_recv, &all_gather, &reduce_scatter, &all_reduce,
                        &all_to_all, &memory, &other, &waiting})
    *part *= factor;
  return *this;
}

std::vector<KernelSeconds> kernel_seconds_of_ranks(const run::Timeline& timeline) {
  return mapped(Counter(timeline).of_ranks(), [](const Sums& sums) { return in_seconds(sums); });
}

KernelClass classify(const run::SpanType& type) {
  switch (type.kind) {
    case run::SpanKind::compute:
      return KernelClass::compute;
    case run::SpanKind::memory:
    case run::SpanKind::copy:
      return KernelClass::memory;
    case run::SpanKind::communication:
      return type.collective ? class_of(*type.collective) : KernelClass::other;
    case run::SpanKind::other:
      return KernelClass::other;
    case run::SpanKind::host:
    case run::SpanKind::pass:
    case run::SpanKind::step:
      return KernelClass::none;
  }
  return KernelClass::none;
}

namespace {

using run::SpanKind;

constexpr size_t looked_at = 4096;  // std::regex recurses with the length of the text

struct NamedLabel {
  std::string_view word;
  KernelLabel label;
};
constexpr std::array named_labels = {
    NamedLabel{"compute", {SpanKind::compute, {}}},
    NamedLabel{"memory", {SpanKind::memory, {}}},
    NamedLabel{"other", {SpanKind::other, {}}},
    NamedLabel{"all_reduce", {SpanKind::communication, spec::Collective::all_reduce}},
    NamedLabel{"all_gather", {SpanKind::communication, spec::Collective::all_gather}},
    NamedLabel{"reduce_scatter", {SpanKind::communication, spec::Collective::reduce_scatter}},
    NamedLabel{"all_to_all", {SpanKind::communication, spec::Collective::all_to_all}},
    NamedLabel{"broadcast", {SpanKind::communication, spec::Collective::broadcast}},
    NamedLabel{"send_recv", {SpanKind::communication, spec::Collective::send_recv}},
    NamedLabel{"communication", {SpanKind::communication, {}}},
};

/// Thrown through std::regex, which has no limit.
struct TooManySteps {};

/// A place in a name that counts how often it is looked at.
class CountedPlace {
 public:
  using iterator_category = std::bidirectional_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedPlace() = default;
  CountedPlace(const char* at, int64_t* steps) : at_(at), steps_(steps) {}
  reference operator*() const {
    if (--*steps_ < 0) throw TooManySteps();
    return *at_;
  }
  CountedPlace& operator++() { return ++at_, *this; }
  CountedPlace& operator--() { return --at_, *this; }
  CountedPlace operator++(int) { return {at_++, steps_}; }
  CountedPlace operator--(int) { return {at_--, steps_}; }
  friend bool operator==(const CountedPlace& a, const CountedPlace& b) { return a.at_ == b.at_; }

 private:
  const char* at_ = nullptr;
  int64_t* steps_ = nullptr;
};

bool matches(const KernelRule& rule, const std::string& name, int64_t& steps) {
  const auto has = [&](const std::string& part) { return contains(name, part); };
  if (!std::ranges::all_of(rule.all, has)) return false;
  if (!rule.any.empty() && std::ranges::none_of(rule.any, has)) return false;
  if (!rule.pattern) return true;
  const CountedPlace begin(name.data(), &steps), end(name.data() + name.size(), &steps);
  return std::regex_search(begin, end, *rule.pattern);
}

constexpr int64_t most_steps = 50'000'000;  // of all expressions in one name

/// Throws TooManySteps.
std::optional<KernelLabel> label_within_steps(std::string_view name, const KernelRuleSet& set) {
  const std::string lower = lower_case(name.substr(0, looked_at));
  int64_t steps = most_steps;
  for (const KernelRule& rule : set.rules)
    if (matches(rule, lower, steps)) return rule.label;
  return set.otherwise;
}

}  // namespace

std::string_view label_of(const run::SpanType& type) {
  if (type.kind == SpanKind::communication && type.collective)
    return spec::name_of(*type.collective);
  return run::span_kind_name(type.kind);
}

std::string absence_of_communication(const run::Timeline& timeline) {
  std::vector<int64_t> time(timeline.types.size(), 0), count(timeline.types.size(), 0);
  for (const run::Span& span : timeline.spans) {
    time[as_size(span.type)] += span.end.nanoseconds() - span.begin.nanoseconds();
    ++count[as_size(span.type)];
  }
  int64_t all = 0, unknown = 0, kernels = 0, copies = 0, calls = 0;
  size_t longest = timeline.types.size();
  for (size_t i = 0; i < time.size(); ++i) {
    const run::SpanType& type = timeline.types[i];
    if (count[i] == 0) continue;
    if (type.kind == SpanKind::communication || run::issue_state(type)) return "";
    if (is_kernel(type.kind) && type.kind != SpanKind::copy) all += time[i];
    if (type.kind == SpanKind::copy && contains(type.name, "PtoP")) copies += count[i];
    if (type.kind == SpanKind::host && type.name.starts_with("nccl:")) calls += count[i];
    if (type.kind != SpanKind::other) continue;
    unknown += time[i];
    kernels += count[i];
    if (longest == time.size() || time[i] > time[longest]) longest = i;
  }
  std::vector<std::string> may_be;
  if (kernels > 0)
    may_be.push_back(
        fmt::format("{} kernels of unknown kind ({:.1f} % of the kernels' time, most of it {})",
                    kernels, all > 0 ? 100 * as_real(unknown) / as_real(all) : 0.,
                    timeline.types[longest].name.substr(0, 80)));
  if (copies > 0) may_be.push_back(fmt::format("{} copies between GPUs", copies));
  if (calls > 0)
    may_be.push_back(fmt::format("{} calls of NCCL whose kernels are not in the trace", calls));
  if (may_be.empty()) return "No communication in the trace.";
  return fmt::format(
      "No communication is recognized in the trace, but may be in {}; --rules FILE tells kernels' "
      "classes.",
      fmt::join(may_be, ", "));
}

std::optional<KernelLabel> kernel_label(std::string_view word) {
  for (const NamedLabel& named : named_labels)
    if (named.word == word) return named.label;
  return std::nullopt;
}

std::vector<std::string> kernel_label_words() {
  return mapped<std::string>(named_labels, &NamedLabel::word);
}

std::optional<KernelLabel> label_by_rules(std::string_view name, const KernelRuleSet& set) {
  try {
    return label_within_steps(name, set);
  } catch (const TooManySteps&) {
    return set.otherwise;
  }
}

std::optional<std::string> apply_rules(run::Timeline& timeline, const KernelRuleSet& set) {
  for (run::SpanType& type : timeline.types) {
    if (!is_kernel(type.kind) || type.kind == SpanKind::copy) continue;
    std::optional<KernelLabel> label;
    try {
      label = label_within_steps(type.name, set);
    } catch (const TooManySteps&) {
      return type.name;
    }
    if (!label) continue;
    // A rule that knows no more than "communication" does not take back what the trace says.
    const bool keeps = label->kind == SpanKind::communication && !label->collective;
    if (!keeps) type.collective = label->collective;
    type.kind = label->kind;
  }
  return std::nullopt;
}

}  // namespace triplepoint::metrics
