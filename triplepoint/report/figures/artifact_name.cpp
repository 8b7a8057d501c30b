// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/artifact_name.h"

#include <charconv>
#include <vector>

namespace triplepoint::report {
namespace {

/// Layouts by index, from 1; index 5 is FSDP for the dense models that are trained.
struct Layouts {
  std::string_view model;
  std::vector<std::string_view> h200, h100, adapters;
};

const std::vector<Layouts>& layouts() {
  static const std::vector<Layouts> all = {
      {"gpt3-175b",
       {"TP2-PP16", "TP4-PP8", "TP8-PP4", "TP1-PP32", "TP8-FSDP"},
       {"TP2-PP32", "TP4-PP16", "TP8-PP8", "", "TP8-FSDP"},
       {"TP2-PP16", "TP4-PP8", "TP8-PP4", "TP1-PP32", "TP1-PP1"}},
      {"llama3-70b",
       {"TP8-PP2", "TP4-PP4", "TP2-PP8", "TP1-PP16", "TP8-FSDP"},
       {"TP8-PP4", "TP4-PP8", "TP2-PP16", "TP1-PP32", "TP8-FSDP"},
       {"TP8-PP2", "TP4-PP4", "TP2-PP8", "TP1-PP16", "TP1-PP1"}},
      {"mixtral-8x22b",
       {"EP8-TP1-PP4", "EP8-TP2-PP2", "EP8-TP4-PP1"},
       {"EP8-TP8-PP1", "EP8-TP4-PP2", "EP8-TP2-PP4", "EP8-TP1-PP8"},
       {"EP8-TP1-PP4", "EP8-TP2-PP2", "EP8-TP4-PP1", "TP1-PP1"}},
      {"mixtral-8x7b",
       {"EP8-TP1-PP1", "EP4-TP2-PP1"},
       {"EP8-TP1-PP2", "EP4-TP4-PP1", "EP4-TP2-PP2", "EP4-TP1-PP4"},
       {"EP8-TP1-PP1", "EP4-TP2-PP1", "TP1-PP1"}}};
  return all;
}

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

const std::vector<std::string_view>& layouts_in(const Layouts& of, ArtifactSweep sweep) {
  if (sweep == ArtifactSweep::adapters) return of.adapters;
  return sweep == ArtifactSweep::h100 ? of.h100 : of.h200;
}

bool read_variant(std::string_view word, ArtifactSweep sweep, ArtifactName& name) {
  if (word.starts_with("mbs")) {
    const auto size = number_in(word.substr(3));
    if (!size || *size < 1) return false;
    name.microbatch = *size;
    name.variant = sweep == ArtifactSweep::adapters ? "base" : "recompute";
    return true;
  }
  if (word.size() != 5 || word.find_first_not_of("01") != std::string_view::npos) return false;
  const bool overlap = word[0] == '1', recompute = word[1] == '1';
  name.variant = overlap && recompute ? "recompute+overlap"
                 : overlap            ? "overlap"
                 : recompute          ? "recompute"
                                      : "base";
  return true;
}

}  // namespace

std::optional<ArtifactName> parse_artifact_name(std::string_view text, ArtifactSweep sweep) {
  const std::size_t last = text.rfind('_');
  if (last == std::string_view::npos) return std::nullopt;
  const std::size_t middle = text.substr(0, last).rfind('_');
  if (middle == std::string_view::npos) return std::nullopt;
  ArtifactName name;
  if (!read_variant(text.substr(last + 1), sweep, name)) return std::nullopt;
  const auto index = number_in(text.substr(middle + 1, last - middle - 1));
  for (const Layouts& of : layouts()) {
    if (of.model != text.substr(0, middle)) continue;
    const auto& known = layouts_in(of, sweep);
    if (!index || *index < 1 || *index > static_cast<int64_t>(known.size())) return std::nullopt;
    name.model = of.model;
    name.layout = known[static_cast<std::size_t>(*index - 1)];
    if (name.layout.empty()) return std::nullopt;
    const std::size_t depth = name.layout.find("PP");
    if (depth != std::string::npos)
      name.pipeline = number_in(std::string_view(name.layout).substr(depth + 2)).value_or(1);
    return name;
  }
  return std::nullopt;
}

}  // namespace triplepoint::report
