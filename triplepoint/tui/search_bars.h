// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triplepoint/tui/progress.h"

namespace triplepoint::tui {

/// A bar for one part of a search after the other.
class SearchBars {
 public:
  explicit SearchBars(Console& console) : console_(console) {}
  void begin(const char* what, size_t total) {
    bar_.reset();
    bar_ = std::make_unique<Progress>(console_, what, total);
  }
  void advance() { bar_->advance(); }

 private:
  Console& console_;
  std::unique_ptr<Progress> bar_;
};

}  // namespace triplepoint::tui
