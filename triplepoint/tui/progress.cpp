// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/progress.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/tui/console.h"

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

}  // namespace

std::string progress_line(std::string_view what, std::size_t done, std::size_t total,
                          double elapsed_s, std::size_t width) {
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const double rate = elapsed_s > 0 ? static_cast<double>(done) / elapsed_s : 0;
  std::string numbers = fmt::format("{}/{}", done, total);
  if (done > 0 && rate > 0) {
    const double left = static_cast<double>(total - done) / rate;
    numbers += fmt::format("  {:.1f}/s  {} left", rate, duration_text(left));
  }
  const std::size_t taken = display_width(what) + display_width(numbers) + 6;
  if (taken + 10 > width) return shorten(fmt::format("{}  {}", what, numbers), width);
  const std::size_t bar = std::min<std::size_t>(width - taken, 40);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(bar));
  return fmt::format("{}  [{}{}]  {}", what, std::string(filled, '='),
                     std::string(bar - filled, ' '), numbers);
}

Progress::Progress(Console& console, std::string what, std::size_t total)
    : console_(&console),
      what_(std::move(what)),
      total_(total),
      start_(Clock::now()),
      last_draw_(start_) {}

Progress::~Progress() {
  if (!drawn_) return;
  console_->draw_on_error("\r\033[K");
  console_->flush();
}

void Progress::advance() {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (!console_->abilities().error_is_terminal) return;
  const double elapsed = since(start_);
  if (!drawn_ && elapsed < first_look_s) return;
  const double whole = elapsed * static_cast<double>(total_) / static_cast<double>(done_);
  if (!drawn_ && whole < min_shown_duration_s) return;
  if (drawn_ && since(last_draw_) < redraw_interval_s) return;
  draw(elapsed);
}

void Progress::draw(double elapsed_s) {
  const std::size_t width = console_->abilities().error_width - 1;
  console_->draw_on_error("\r\033[K" + progress_line(what_, done_, total_, elapsed_s, width));
  console_->flush();
  last_draw_ = Clock::now();
  drawn_ = true;
}

}  // namespace triplepoint::tui
