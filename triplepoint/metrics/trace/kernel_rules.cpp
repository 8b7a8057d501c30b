// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/kernel_rules.h"

#include <algorithm>
#include <array>

#include "triplepoint/base/text.h"

#include "triplepoint/metrics/trace/kernel_class.h"

namespace triplepoint::metrics {

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

bool matches(const KernelRule& rule, const std::string& name) {
  const auto has = [&](const std::string& part) { return name.find(part) != std::string::npos; };
  if (!std::all_of(rule.all.begin(), rule.all.end(), has)) return false;
  if (!rule.any.empty() && std::none_of(rule.any.begin(), rule.any.end(), has)) return false;
  return !rule.pattern || std::regex_search(name, *rule.pattern);
}

}  // namespace

std::string_view label_of(const run::SpanType& type) {
  switch (type.kind) {
    case SpanKind::compute:
      return "compute";
    case SpanKind::memory:
      return "memory";
    case SpanKind::communication:
      return type.collective ? spec::name_of(*type.collective) : "communication";
    case SpanKind::other:
      return "other";
    case SpanKind::host:
      return "host";
    case SpanKind::pass:
      return "pass";
    case SpanKind::step:
      return "step";
    case SpanKind::copy:
      return "copy";
  }
  return "other";
}

std::optional<KernelLabel> kernel_label(std::string_view word) {
  for (const NamedLabel& named : named_labels)
    if (named.word == word) return named.label;
  return std::nullopt;
}

std::vector<std::string> kernel_label_words() {
  std::vector<std::string> words;
  words.reserve(std::size(named_labels));
  for (const NamedLabel& named : named_labels)
    words.emplace_back(named.word);
  return words;
}

std::optional<KernelLabel> label_by_rules(std::string_view name, const KernelRuleSet& set) {
  const std::string lower = lower_case(name.substr(0, looked_at));
  for (const KernelRule& rule : set.rules)
    if (matches(rule, lower)) return rule.label;
  return set.otherwise;
}

void apply_rules(run::Timeline& timeline, const KernelRuleSet& set) {
  for (run::SpanType& type : timeline.types) {
    if (!is_kernel(type.kind) || type.kind == SpanKind::copy) continue;
    const std::optional<KernelLabel> label = label_by_rules(type.name, set);
    if (!label) continue;
    // A rule that knows no more than "communication" does not take back what the trace says.
    const bool keeps = label->kind == SpanKind::communication && !label->collective;
    if (!keeps) type.collective = label->collective;
    type.kind = label->kind;
  }
}

}  // namespace triplepoint::metrics
