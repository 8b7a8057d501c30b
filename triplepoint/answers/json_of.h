// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "triplepoint/base/json.h"
#include "triplepoint/base/units.h"

namespace triplepoint::answers {

// Values of the catalogue as JSON, in base units; what is not known is null.

Json of(const auto& value) {
  return value;
}
template <class Number>
Json of(const std::optional<Number>& value) {
  return value ? Json(*value) : Json();
}
inline Json of(Seconds time) {
  return time / unit::s;
}
inline Json of(const std::optional<Seconds>& time) {
  return time ? of(*time) : Json();
}
inline Json of(Bytes bytes) {
  return bytes / unit::B;
}
inline Json of(const std::optional<Bytes>& bytes) {
  return bytes ? of(*bytes) : Json();
}

}  // namespace triplepoint::answers
