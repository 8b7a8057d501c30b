// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// What kernel seconds are told apart by. none: host work, and spans that enclose others.
enum class KernelClass : uint8_t {
  compute,
  send_recv,
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  memory,
  other,
  none
};
inline constexpr int kernel_class_count = 9;

KernelClass classify(const run::SpanType&);

/// Whether a device kernel runs during such a span.
inline bool is_kernel(run::SpanKind kind) {
  return kind <= run::SpanKind::other || kind == run::SpanKind::copy;
}

/// What a span counts as, in one word: "compute", "memory", "other", "copy", the collective's name
/// ("all_reduce", ...), "communication" where that is not known, "host", "pass", "step".
std::string_view label_of(const run::SpanType&);

/// What is said of a timeline in which no span is communication: that there is none, if nothing
/// that was not recognized can be it; else what may be. Empty where there is communication.
std::string absence_of_communication(const run::Timeline&);

/// What a rule may say of a kernel: the label's kind and collective; nothing for a word that is no
/// label of a kernel.
struct KernelLabel {
  run::SpanKind kind = run::SpanKind::other;
  std::optional<spec::Collective> collective;
  friend bool operator==(const KernelLabel&, const KernelLabel&) = default;
};
std::optional<KernelLabel> kernel_label(std::string_view word);
std::vector<std::string> kernel_label_words();

/// One line of a rule file. It matches a name that contains every one of `all` and, unless that is
/// empty, one of `any`, and in which `pattern`, if there is one, is found. Case does not matter.
struct KernelRule {
  std::vector<std::string> all, any;  // lower case
  std::optional<std::regex> pattern;  // made with icase
  KernelLabel label;
};

/// Rules in the order in which they are asked; the first that matches decides.
struct KernelRuleSet {
  std::string name;
  std::vector<KernelRule> rules;
  std::optional<KernelLabel> otherwise;  // absent: what no rule matches keeps what it was
};

/// What the rules say of a kernel with this name. Looks at its first 4096 characters. A regular
/// expression that takes too long (see apply_rules) is not found.
std::optional<KernelLabel> label_by_rules(std::string_view name, const KernelRuleSet&);

/// Gives every kernel of the timeline the kind and the collective that the rules say; copies, host
/// work, passes and steps stay what they are. All analyses follow. A name at which a regular
/// expression backtracks more than 50 million steps (about two seconds) ends it, and is returned.
std::optional<std::string> apply_rules(run::Timeline&, const KernelRuleSet&);

}  // namespace triplepoint::metrics
