// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/interrupt.h"

#include <atomic>
#include <csignal>

namespace triplepoint {
namespace {

// A signal handler can reach nothing but a lock-free global.
std::atomic<bool> mark{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<bool>::is_always_lock_free);

void note_interrupt(int signal) {
  mark = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void listen_for_interrupts() {
  std::signal(SIGINT, note_interrupt);
  std::signal(SIGTERM, note_interrupt);
  std::signal(SIGPIPE, SIG_IGN);
}

void let_interrupts_end_us() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool interrupted() {
  return mark;
}

void set_interrupted(bool value) {
  mark = value;
}

}  // namespace triplepoint
