// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace triplepoint::trace::kineto {

/// What an event is, by its "cat", over all years and vendors.
enum class Category : uint8_t {
  none,  // not there, not known, or of no use: flows, counters, the profiler's own spans
  op,
  annotation,
  python,
  runtime,  // calls that may launch something
  host,     // anything else on a thread
  kernel,
  copy,
  set,
  device  // of accelerators other than GPUs
};
Category category_of(std::string_view cat);
inline bool on_device(Category category) {
  return category >= Category::kernel;
}

/// A process or thread: a number, or a text such as "stream 7" (2021) or "Spans".
struct Id {
  int64_t number = -1;
  std::string_view text;  // empty if it is a number
};

/// Arguments of a collective, on its operator or copied to its kernel.
struct CollectiveArguments {
  std::string_view name, dtype, group_name, group_description, group_ranks;
  std::string_view input_dims, input_types;  // of operators: "[[6144], [], []]"
  int64_t in_elements = -1, out_elements = -1, group_size = -1, sequence = -1;
  int64_t source = -1,
          destination = -1;  // peer of a message: a recv names the one, a send the other
};

/// One trace event as it stands in the file; views into its text, escapes as they are.
struct Event {
  char phase = 0;
  Category category = Category::none;
  std::string_view name;
  Id process, thread;
  std::optional<int64_t> begin_ns, length_ns;
  int64_t external_id = -1, correlation = -1, device = -1, stream = -1, bytes = -1;
  int64_t blocks = -1, threads_per_block = -1;
  float occupancy = -1;
  std::string_view label;  // of metadata: the thread's or process's name
  CollectiveArguments collective;
  std::string_view values;  // "Concrete Inputs" of an operator, raw
  int64_t sequence = -1;    // of autograd
};

/// How an attempt to read an event ended.
enum class Outcome : uint8_t { event, more, bad };

/// Reads the event whose brace is at `at`; text ends at `end`, followed by zeros. event: `at` is
/// behind it. more: the text ends inside. bad: it is no JSON; `why` says what is wrong. Arguments
/// of operators that start no collective are read with `shapes` only.
Outcome read_event(const char*& at, const char* end, Event&, const char*& why, bool shapes = false);

/// Whether a name is of an operator or annotation that starts a collective.
bool names_collective(std::string_view name);
/// Of an event on a device: whether its stream waits there, or only notes the time (MTIA).
bool waits_on_device(std::string_view name);

}  // namespace triplepoint::trace::kineto
