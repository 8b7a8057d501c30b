// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/shared_flags.h"

#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/list_text.h"
#include "triplepoint/base/parallel.h"

namespace triplepoint::cli {
namespace {

// More would not start on any machine; it is also where an int would end.
constexpr int64_t most_threads = 4096;

}  // namespace

Store into_count(std::optional<int64_t>& target, int64_t least, int64_t most) {
  return [&target, least, most](std::string_view text) -> Result<void> {
    const int64_t count = TPT_TRY(parse_count(text));
    if (count < least || count > most)
      return error(fmt::format("{} is out of range (it counts from {} to {}); give one of these",
                               count, least, most));
    target = count;
    return {};
  };
}

Store into_time(std::optional<Seconds>& target, Seconds least, Seconds most) {
  return [&target, least, most](std::string_view text) -> Result<void> {
    const Seconds time = TPT_TRY(parse_quantity<Seconds>(text));
    if (!(time >= least && time <= most))
      return error(
          fmt::format("{} is out of range ({:g} s to {:g} h make sense); give one between them",
                      text, least / unit::s, most / unit::h));
    target = time;
    return {};
  };
}

Argument ThreadsFlag::argument(std::string group) {
  return {.names = "--threads",
          .value = "N",
          .help = help_,
          .group = std::move(group),
          .store = into_count(asked_, 1, most_threads)};
}

int ThreadsFlag::count() const {
  return count_or(available_threads());
}

}  // namespace triplepoint::cli
