// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/number_text.h"

#include "triplepoint/base/number_text.h"

namespace triplepoint::report {

std::string significant(double value, int digits) {
  return triplepoint::significant(value, digits);
}

std::string significant(const std::optional<double>& value, int digits) {
  return triplepoint::significant(value, digits);
}

std::string whole(int64_t value) {
  return triplepoint::whole(value);
}

std::string percent(double share) {
  return triplepoint::percent(share);
}

std::string times_or_percent_more(double ratio) {
  return triplepoint::times_or_percent_more(ratio);
}

TimeUnit time_unit(int64_t longest_ns) {
  const triplepoint::TimeUnit unit = triplepoint::time_unit(longest_ns);
  return {unit.name, unit.ns};
}

std::string in_unit(double ns, const TimeUnit& unit) {
  return triplepoint::in_unit(ns, {unit.name, unit.ns});
}

}  // namespace triplepoint::report
