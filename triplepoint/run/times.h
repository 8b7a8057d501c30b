// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "triplepoint/base/units.h"

namespace triplepoint::run {

/// Ascending stamps of a series. Copies share one vector until one of them is changed: most signals
/// of most devices are read at the same moments.
class Times {
 public:
  Times() = default;
  Times(std::vector<Instant> stamps)  // NOLINT(google-explicit-constructor): a series takes one
      : stamps_(std::make_shared<std::vector<Instant>>(std::move(stamps))) {}
  Times(std::initializer_list<Instant> stamps) : Times(std::vector<Instant>(stamps)) {}

  std::span<const Instant> all() const {
    return stamps_ ? std::span<const Instant>(*stamps_) : std::span<const Instant>();
  }
  size_t size() const { return all().size(); }
  bool empty() const { return all().empty(); }
  const Instant& operator[](size_t i) const { return all()[i]; }
  const Instant& front() const { return all().front(); }
  const Instant& back() const { return all().back(); }
  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }

  void reserve(size_t count) { own().reserve(count); }
  void push_back(Instant stamp) { own().push_back(stamp); }
  void emplace_back(int64_t nanoseconds) { own().emplace_back(nanoseconds); }
  /// To be changed: shared with no other.
  std::vector<Instant>& own() {
    if (!stamps_ || stamps_.use_count() > 1)
      stamps_ = std::make_shared<std::vector<Instant>>(begin(), end());
    return *stamps_;
  }

  friend bool operator==(const Times& a, const Times& b) {
    return a.stamps_ == b.stamps_ || std::ranges::equal(a.all(), b.all());
  }

 private:
  std::shared_ptr<std::vector<Instant>> stamps_;
};

}  // namespace triplepoint::run
