// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/fault.h"

#include <array>
#include <cmath>
#include <vector>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

namespace triplepoint::spec {
namespace {

struct KindWord {
  std::string_view word;
  FaultKind kind;
};
constexpr std::array<KindWord, 7> kind_words = {{{"power", FaultKind::power},
                                                 {"fan", FaultKind::fan},
                                                 {"inlet", FaultKind::inlet},
                                                 {"heat_path", FaultKind::heat_path},
                                                 {"link", FaultKind::link},
                                                 {"host", FaultKind::host},
                                                 {"lost", FaultKind::node_lost}}};

constexpr std::string_view example = "gpu=3,power=0.25@120s..300s";

template <class Number>
Result<Number> whole_number(std::string_view key, std::string_view text) {
  const std::string_view whole = text;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto value = number_of_text<Number>(text);
  if (!value || !std::isfinite(as_real(*value)))
    return error("\"{}\" is no number for {} (a fault is written as in {}); write one", whole, key,
                 example);
  return *value;
}

/// Kelvins, with their unit or without.
Result<Kelvins> rise_of(std::string_view text) {
  if (text.ends_with('K')) text.remove_suffix(1);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  return TPT_TRY(whole_number<double>("inlet", text)) * unit::K;
}

Result<void> read_kind(Fault& fault, FaultKind kind, std::string_view key, std::string_view value) {
  fault.kind = kind;
  if (kind == FaultKind::inlet)
    fault.rise = TPT_TRY(rise_of(value));
  else if (kind == FaultKind::node_lost)
    fault.restart = TPT_TRY(parse_quantity<Seconds>(value));
  else
    fault.share = TPT_TRY(whole_number<double>(key, value));
  return {};
}

Result<void> read_item(Fault& fault, bool& has_kind, std::string_view item) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos)
    return error("\"{}\" has no value (a fault is written as in {}); write {}=...", item, example,
                 item);
  const std::string_view key = item.substr(0, equals), value = item.substr(equals + 1);
  if (key == "gpu") fault.gpu = TPT_TRY(whole_number<int64_t>(key, value));
  if (key == "node") fault.node = TPT_TRY(whole_number<int64_t>(key, value));
  if (key == "every") fault.period = TPT_TRY(parse_quantity<Seconds>(value));
  if (key == "gpu" || key == "node" || key == "every") return {};
  std::vector<std::string> known = {"gpu", "node", "every"};
  for (const auto& [word, kind] : kind_words) {
    known.emplace_back(word);
    if (key != word) continue;
    if (has_kind) return error("{} comes second (a fault is of one kind); give another fault", key);
    has_kind = true;
    return read_kind(fault, kind, key, value);
  }
  return error("\"{}\" is nothing that can fail; {}", key, did_you_mean(std::string(key), known));
}

Result<void> read_times(Fault& fault, std::string_view text) {
  const size_t dots = text.find("..");
  fault.begin = TPT_TRY(parse_quantity<Seconds>(text.substr(0, dots)));
  if (dots != std::string_view::npos)
    fault.end = TPT_TRY(parse_quantity<Seconds>(text.substr(dots + 2)));
  return {};
}

std::string size_text(const Fault& fault) {
  if (fault.kind == FaultKind::inlet) return fmt::format("{:+}", fault.rise / unit::K);
  if (fault.kind == FaultKind::node_lost) return to_text(fault.restart);
  return fmt::format("{}", fault.share);
}

// A moment computed from a period may miss the edge it stands for by rounding.
constexpr double period_tolerance = 1e-9;

/// Which half of its period a flapping fault is in: even halves are on.
/// Moments come from begin + k period / 2, so the quotient may fall just short of k; the tolerance
/// keeps an edge from being met twice.
double half_of(const Fault& fault, Seconds now) {
  return std::floor((now - fault.begin) / (0.5 * *fault.period) + period_tolerance);
}

bool flaps(const Fault& fault) {
  return fault.period && fault.kind != FaultKind::node_lost;
}

}  // namespace

Result<Fault> parse_fault(std::string_view text) {
  Fault fault;
  bool has_kind = false;
  const size_t at = text.find('@');
  std::string_view items = text.substr(0, at);
  while (!items.empty()) {
    const size_t comma = items.find(',');
    TPT_TRY(read_item(fault, has_kind, items.substr(0, comma)));
    items = comma == std::string_view::npos ? std::string_view() : items.substr(comma + 1);
  }
  if (!has_kind)
    return error(
        "\"{}\" does not name a failing part (power, fan, inlet, heat_path, link, "
        "host or lost); write it as in {}",
        text, example);
  if (at != std::string_view::npos) TPT_TRY(read_times(fault, text.substr(at + 1)));
  return fault;
}

std::string to_text(const Fault& fault) {
  std::string text;
  if (fault.gpu) text += fmt::format("gpu={},", *fault.gpu);
  if (fault.node) text += fmt::format("node={},", *fault.node);
  for (const auto& [word, kind] : kind_words)
    if (kind == fault.kind) text += fmt::format("{}={}", word, size_text(fault));
  if (fault.period) text += fmt::format(",every={}", to_text(*fault.period));
  if (fault.begin != Seconds() || fault.end) text += "@" + to_text(fault.begin);
  if (fault.end) text += ".." + to_text(*fault.end);
  std::erase(text, ' ');
  return text;
}

bool is_on(const Fault& fault, Seconds now) {
  if (now < fault.begin || (fault.end && now >= *fault.end)) return false;
  return !flaps(fault) || std::fmod(half_of(fault, now), 2) == 0;
}

std::optional<Seconds> next_edge(const Fault& fault, Seconds now) {
  if (now < fault.begin) return fault.begin;
  std::optional<Seconds> end = fault.end;
  if (fault.kind == FaultKind::node_lost) end = fault.begin + fault.restart;
  if (end && now >= *end) return std::nullopt;
  if (!flaps(fault)) return end;
  // From the begin, not from `now`: edges do not drift however many periods pass.
  const Seconds flap = fault.begin + (half_of(fault, now) + 1) * (0.5 * *fault.period);
  return end ? std::min(flap, *end) : flap;
}

}  // namespace triplepoint::spec
