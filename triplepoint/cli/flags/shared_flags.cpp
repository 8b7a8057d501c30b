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

Result<int64_t> read_count(std::string_view text, int64_t least, int64_t most) {
  const int64_t count = TPT_TRY(parse_count(text));
  if (count >= least && count <= most) return count;
  return error(fmt::format("{} is out of range (it counts from {} to {}); give one of these", count,
                           least, most));
}

Result<Seconds> read_time(std::string_view text, Seconds least, Seconds most) {
  const Seconds time = TPT_TRY(parse_quantity<Seconds>(text));
  if (time >= least && time <= most) return time;
  return error(
      fmt::format("{} is out of range ({:g} s to {:g} h make sense); give one between them", text,
                  least / unit::s, most / unit::h));
}

Argument ThreadsFlag::argument() {
  return {{}, "--threads", "N", help_, "", into_count(asked_, 1, most_threads)};
}

int ThreadsFlag::count() const {
  return count_or(available_threads());
}

}  // namespace triplepoint::cli
