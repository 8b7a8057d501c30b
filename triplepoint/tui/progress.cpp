// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/progress.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>

#include "triplepoint/system/process.h"

namespace triplepoint::tui {
namespace {

constexpr double min_shown_duration_s = 2;  // shorter work shows nothing
constexpr double first_look_s = 0.4;        // when the guess of the whole time is made
constexpr double redraw_interval_s = 0.1;

std::string duration_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  if (seconds < 6000) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The bar of one part of the work after the other. Threads share it.
class Bar {
 public:
  explicit Bar(Console& console) : console_(console) {}
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  ~Bar() { console_.draw_status(""); }

  void begin(const char* what, std::size_t total) {
    const std::lock_guard lock(mutex_);
    console_.draw_status("");
    what_ = what, total_ = total, done_ = 0, drawn_ = false;
    start_ = Clock::now();
  }

  void advance() {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (!console_.abilities().error_is_terminal) return;
    const double elapsed = since(start_);
    if (!drawn_ && elapsed < first_look_s) return;
    const double whole = elapsed * as_real(total_) / as_real(done_);
    if (!drawn_ && whole < min_shown_duration_s) return;
    if (drawn_ && since(last_draw_) < redraw_interval_s) return;
    const std::size_t width = console_.abilities().error_width - 1;
    console_.draw_status(progress_line(what_, done_, total_, elapsed, width));
    last_draw_ = Clock::now();
    drawn_ = true;
  }

  void say(std::string_view line) {
    const std::lock_guard lock(mutex_);
    console_.warn(fmt::format("triplepoint: {}\n", line));
  }

 private:
  using Clock = std::chrono::steady_clock;

  Console& console_;
  std::mutex mutex_;
  std::string what_;
  std::size_t total_ = 0, done_ = 0;
  Clock::time_point start_, last_draw_;
  bool drawn_ = false;
};

}  // namespace

std::string progress_line(std::string_view what, std::size_t done, std::size_t total,
                          double elapsed_s, std::size_t width) {
  const double share = total > 0 ? as_real(done) / as_real(total) : 1;
  const double rate = elapsed_s > 0 ? as_real(done) / elapsed_s : 0;
  std::string numbers = fmt::format("{}/{}", done, total);
  if (done > 0 && rate > 0) {
    const double left = as_real(total - done) / rate;
    numbers += fmt::format("  {:.1f}/s  {} left", rate, duration_text(left));
  }
  const std::size_t taken = display_width(what) + display_width(numbers) + 6;
  if (taken + 10 > width) return shorten(fmt::format("{}  {}", what, numbers), width);
  const std::size_t bar = std::min<std::size_t>(width - taken, 40);
  const auto filled = as_size(share * as_real(bar));
  return fmt::format("{}  [{}{}]  {}", what, std::string(filled, '='),
                     std::string(bar - filled, ' '), numbers);
}

Watch watch_on(Console& console) {
  const auto bar = std::make_shared<Bar>(console);
  return {.begin = [bar](const char* what, std::size_t total) { bar->begin(what, total); },
          .advance = [bar] { bar->advance(); },
          .say = [bar](std::string_view line) { bar->say(line); },
          .stopped = interrupted};
}

}  // namespace triplepoint::tui
