// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/run/timeline.h"

namespace triplepoint::run {

/// How far a collective is known to have come whose length was not measured. It is no span of
/// communication, so that no length of it can be used: it is a span of the host, without length,
/// at its issue, and its name ends in its state: "nccl:all_reduce (started)".
enum class IssueState : uint8_t { scheduled, started, completed };
inline constexpr std::array<std::string_view, 3> issue_state_words = {"scheduled", "started",
                                                                      "completed"};

inline std::string_view word_of(IssueState state) {
  return issue_state_words[as_size(state)];
}
inline std::string issued_name(std::string_view call, IssueState state) {
  return std::string(call) + " (" + std::string(word_of(state)) + ")";
}
/// Nothing for spans of other types.
inline std::optional<IssueState> issue_state(const SpanType& type) {
  if (type.kind != SpanKind::host || type.op_class != spec::OpClass::communication)
    return std::nullopt;
  for (size_t i = 0; i < issue_state_words.size(); ++i)
    if (type.name.ends_with("(" + std::string(issue_state_words[i]) + ")"))
      return static_cast<IssueState>(i);
  return std::nullopt;
}

/// A span of a device whose stamps cannot be right is of the host as well, without length, on its
/// own lane: between its instant and the begin of the next one there it ran, for an unknown time.
inline constexpr std::string_view untimed_ending = " (not timed)";
inline bool is_untimed(const SpanType& type) {
  return type.kind == SpanKind::host && type.name.ends_with(untimed_ending);
}
inline SpanType untimed(SpanType type) {
  type.name += untimed_ending;
  type.kind = SpanKind::host;
  return type;
}

}  // namespace triplepoint::run
