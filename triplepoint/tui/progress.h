// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// "Simulating  [=======>      ] 52/163  9.1/s  12 s left": what is done, how fast, how long yet.
std::string progress_line(std::string_view what, std::size_t done, std::size_t total,
                          double elapsed_s, std::size_t width);

/// A bar on standard error for work that takes longer than a moment; nothing where that is no
/// terminal. Threads may share it.
class Progress {
 public:
  Progress(Console& console, std::string what, std::size_t total);
  Progress(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress& operator=(Progress&&) = delete;
  ~Progress();  // wipes the bar

  void advance();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double elapsed_s);

  Console* console_;
  std::string what_;
  std::size_t total_, done_ = 0;
  Clock::time_point start_, last_draw_;
  bool drawn_ = false;
  std::mutex mutex_;
};

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
