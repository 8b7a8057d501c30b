// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/event.h"

#include "triplepoint/trace/kineto/json_scan.h"

namespace triplepoint::trace::kineto {

namespace {

using namespace json_scan;  // NOLINT(google-build-using-namespace): what this file is made of

bool read_text(const char*& at, std::string_view& text) {
  return *at == '"' ? skip_string(at, text) : skip_value(at);
}

/// What is no number is skipped: the value stays unknown.
bool read_number(const char*& at, int64_t& value) {
  return read_integer(at, value) || skip_value(at);
}

bool read_time(const char*& at, std::optional<int64_t>& value) {
  int64_t nanoseconds = 0;
  if (!read_microseconds(at, nanoseconds)) return skip_value(at);
  value = nanoseconds;
  return true;
}

bool read_id(const char*& at, Id& id) {
  if (*at != '"') return read_number(at, id.number);
  return skip_string(at, id.text);
}

bool read_raw(const char*& at, std::string_view& text) {
  const char* const begin = at;
  if (!skip_value(at)) return false;
  text = {begin, static_cast<size_t>(at - begin)};
  return true;
}

bool read_share(const char*& at, float& value) {
  return read_float(at, value) || skip_value(at);
}

/// The product of a list of three numbers; a value that is none is skipped.
bool read_product(const char*& at, int64_t& product) {
  const char* text = at;
  if (*text != '[') return skip_value(at);
  int64_t all = 1;
  for (;;) {
    text = after_space(text + 1);
    int64_t factor = 0;
    if (!read_integer(text, factor) || factor < 0 || factor > INT32_MAX ||
        __builtin_mul_overflow(all, factor, &all))
      return skip_value(at);
    text = after_space(text);
    if (*text != ',') break;
  }
  if (*text != ']') return skip_value(at);
  product = all;
  at = text + 1;
  return true;
}

/// Calls visit(key, at) for every member of the object at `at`; visit moves `at` behind the value.
/// False where the text is wrong or ends, or visit says so.
bool read_members(const char*& at, auto&& visit) {
  at = after_space(at + 1);
  if (*at == '}') return ++at, true;
  for (;;) {
    std::string_view key;
    if (*at != '"' || !skip_string(at, key)) return false;
    at = after_space(at);
    if (*at != ':') return false;
    at = after_space(at + 1);
    if (!visit(key, at)) return false;
    at = after_space(at);
    if (*at == '}') return ++at, true;
    if (*at != ',') return false;
    at = after_space(at + 1);
  }
}

// Keys are told by their length first; that leaves one or two comparisons.

bool read_short_argument(std::string_view key, const char*& at, Event& event) {
  switch (key.size()) {
    case 3:
      if (key == "Seq") return read_number(at, event.collective.sequence);
      break;
    case 4:
      if (key == "grid") return read_product(at, event.blocks);
      if (key == "name") return read_text(at, event.label);
      break;
    case 5:
      if (key == "block") return read_product(at, event.threads_per_block);
      if (key == "dtype") return read_text(at, event.collective.dtype);
      if (key == "bytes" || key == "Bytes") return read_number(at, event.bytes);
      break;
    case 6:
      if (key == "stream") return read_number(at, event.stream);
      if (key == "device") return read_number(at, event.device);
      break;
    default:
      break;
  }
  return skip_value(at);
}

bool read_medium_argument(std::string_view key, const char*& at, Event& event) {
  CollectiveArguments& collective = event.collective;
  switch (key.size()) {
    case 8:
      if (key == "Src Rank") return read_number(at, collective.source);
      if (key == "Dst Rank") return read_number(at, collective.destination);
      break;
    case 10:
      if (key == "Input Dims") return read_raw(at, collective.input_dims);
      if (key == "Input type") return read_raw(at, collective.input_types);
      if (key == "Group size") return read_number(at, collective.group_size);
      break;
    case 11:
      if (key == "correlation") return read_number(at, event.correlation);
      if (key == "External id" || key == "external id") return read_number(at, event.external_id);
      break;
    case 13:
      if (key == "In msg nelems") return read_number(at, collective.in_elements);
      break;
    default:
      break;
  }
  return skip_value(at);
}

bool read_long_argument(std::string_view key, const char*& at, Event& event) {
  CollectiveArguments& collective = event.collective;
  if (key == "Out msg nelems") return read_number(at, collective.out_elements);
  if (key == "Collective name") return read_text(at, collective.name);
  if (key == "Process Group ID") return read_text(at, collective.group_name);
  if (key == "Process Group Name") return read_text(at, collective.group_name);
  if (key == "Process Group Ranks") return read_text(at, collective.group_ranks);
  if (key == "Process Group Description") return read_text(at, collective.group_description);
  if (key == "est. achieved occupancy %") return read_share(at, event.occupancy);
  if (key == "Concrete Inputs") return read_raw(at, event.values);
  if (key == "Sequence number") return read_number(at, event.sequence);
  return skip_value(at);
}

bool read_argument(std::string_view key, const char*& at, Event& event) {
  if (key.size() <= 6) return read_short_argument(key, at, event);
  if (key.size() <= 13) return read_medium_argument(key, at, event);
  return read_long_argument(key, at, event);
}

/// Whether the arguments of such an event are of use. Unknown where "cat" has not come yet: then
/// they are read.
bool needs_arguments(const Event& event, bool has_category, bool shapes) {
  if (!has_category) return true;
  switch (event.category) {
    case Category::none:
      return event.phase == 'M' || event.phase == 0;
    case Category::op:
      return shapes || names_collective(event.name);
    case Category::annotation:
      return names_collective(event.name);
    case Category::python:
    case Category::host:
      return false;
    default:
      return true;
  }
}

bool read_arguments(const char*& at, Event& event, bool has_category, bool shapes) {
  if (*at != '{' || !needs_arguments(event, has_category, shapes)) return skip_value(at);
  return read_members(at, [&](std::string_view key, const char*& value) {
    return read_argument(key, value, event);
  });
}

struct Member {
  Event& event;
  bool shapes = false, has_category = false;

  bool operator()(std::string_view key, const char*& at) {
    if (key.size() == 2) {
      if (key == "ph") return read_phase(at);
      if (key == "ts") return read_time(at, event.begin_ns);
    } else if (key.size() == 3) {
      if (key == "cat") return read_category(at);
      if (key == "pid") return read_id(at, event.process);
      if (key == "tid") return read_id(at, event.thread);
      if (key == "dur") return read_time(at, event.length_ns);
    } else if (key.size() == 4) {
      if (key == "name") return read_text(at, event.name);
      if (key == "args") return read_arguments(at, event, has_category, shapes);
    }
    return skip_value(at);
  }

  bool read_phase(const char*& at) {
    std::string_view text;
    if (!read_text(at, text)) return false;
    if (text.size() == 1) event.phase = text[0];
    // Other phases need no category: their arguments are of no use, but for metadata's.
    has_category = has_category || (event.phase != 'X' && event.phase != 'M');
    return true;
  }
  bool read_category(const char*& at) {
    std::string_view text;
    if (!read_text(at, text)) return false;
    event.category = category_of(text);
    has_category = true;
    return true;
  }
};

const char* what_is_wrong(const char* at) {
  switch (*at) {
    case '\n':
      return "a string is not closed on its line";
    case '\0':
      return "there is a zero byte in it";
    case '{':
    case '[':
      return "it is nested deeper than 512 levels";
    default:
      return "it is not JSON (a quote too many, for example)";
  }
}

}  // namespace

Category category_of(std::string_view cat) {
  const auto is = [&](auto... names) { return ((cat == names) || ...); };
  if (is("cpu_op", "Operator")) return Category::op;
  if (is("python_function")) return Category::python;
  if (is("kernel", "Kernel")) return Category::kernel;
  // Those of other vendors' accelerators are spelled alike: mtia_runtime, xpu_driver, mlu_memcpy.
  if (cat.ends_with("_runtime") || cat.ends_with("_driver") || is("Runtime"))
    return Category::runtime;
  if (is("user_annotation")) return Category::annotation;
  if (cat.ends_with("_memcpy") || is("Memcpy")) return Category::copy;
  if (cat.ends_with("_memset") || is("Memset")) return Category::set;
  if (is("overhead")) return Category::host;
  if (is("mtia_ccp_events", "mtia_workloadd", "hpu_op", "collective_comm")) return Category::device;
  return Category::none;
}

bool names_collective(std::string_view name) {
  // Fused with a product, an operator of symmetric memory does not tell what its kernels are.
  return name == "record_param_comms" || name.starts_with("nccl:") || name.starts_with("c10d::") ||
         (name.starts_with("symm_mem::") && name.find("matmul") == std::string_view::npos);
}

bool waits_on_device(std::string_view name) {
  return name == "event_wait" || name == "event_record";
}

Outcome read_event(const char*& at, const char* end, Event& event, const char*& why, bool shapes) {
  event = Event();
  const char* text = at;
  if (read_members(text, Member{event, shapes})) {
    at = text;
    return Outcome::event;
  }
  if (text >= end) return Outcome::more;
  why = what_is_wrong(text);
  return Outcome::bad;
}

}  // namespace triplepoint::trace::kineto
