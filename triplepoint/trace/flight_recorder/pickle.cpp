// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <variant>
#include <vector>

#include "triplepoint/base/json.h"

#include "triplepoint/trace/readers.h"

namespace triplepoint::trace {

namespace {

constexpr int deepest = 64;
constexpr size_t most_values = size_t{1} << 25U;

struct Mark {};
struct Global {
  std::string name;
};
/// Items of a dictionary are keys and values in turn. Indices into the machine's values: what is
/// named twice is there once.
struct Items {
  bool is_dictionary = false;
  std::vector<uint32_t> items;
};
using Value = std::variant<std::nullptr_t, bool, int64_t, double, std::string, Items, Mark, Global>;

/// The instructions of the pickle machine that plain data needs.
class PickleMachine {
 public:
  explicit PickleMachine(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

  Result<std::string> run() {
    while (!stopped_) {
      const std::string_view op = take(1);
      if (broken_ || !step(static_cast<unsigned char>(op[0])) || broken_ ||
          values_.size() > most_values)
        return error(
            "not a pickle of plain data (stopped at byte {}); write the dump as JSON instead",
            size_ - rest_.size());
    }
    if (stack_.empty()) return error("an empty pickle (it leaves no value); check the file");
    std::string json;
    // Values that are named often could make a small file long.
    const size_t longest = 16 * size_ + (size_t{1} << 20U);
    if (!write(stack_.back(), 0, longest, json))
      return error("a pickle with too deep nesting or too many repeats; check the file");
    return json;
  }

 private:
  std::string_view take(size_t size) {
    if (size > rest_.size()) {
      broken_ = true;
      size = rest_.size();
    }
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  uint64_t number(size_t size) {
    uint64_t value = 0;
    const std::string_view bytes = take(size);
    for (size_t i = 0; i < bytes.size(); ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return value;
  }
  std::string_view line() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return take(rest_.size() + 1);
    return take(end + 1).substr(0, end);
  }

  bool push(Value value) {
    stack_.push_back(static_cast<uint32_t>(values_.size()));
    values_.push_back(std::move(value));
    return true;
  }
  bool pop(uint32_t& index) {
    if (stack_.empty()) return false;
    index = stack_.back();
    stack_.pop_back();
    return true;
  }
  bool push_text(size_t length_size) {
    const uint64_t length = number(length_size);
    return push(std::string(take(as_size(std::min<uint64_t>(length, rest_.size() + 1)))));
  }
  bool push_big_endian_real() {
    uint64_t bits = 0;
    for (const char c : take(8))
      bits = bits << 8U | static_cast<unsigned char>(c);
    return push(std::bit_cast<double>(bits));
  }
  bool push_long(size_t length_size) {
    const uint64_t length = number(length_size);
    if (length > 8) return false;
    uint64_t bits = number(as_size(length));
    const bool negative = length > 0 && length < 8 && (bits >> (8 * length - 1) & 1U) != 0;
    if (negative) bits |= ~uint64_t{0} << (8 * length);
    return push(static_cast<int64_t>(bits));
  }

  /// What lies above the last mark, which goes away.
  bool above_mark(std::vector<uint32_t>& items) {
    size_t at = stack_.size();
    while (at > 0 && !std::holds_alternative<Mark>(values_[stack_[at - 1]]))
      --at;
    if (at == 0) return false;
    items.assign(stack_.begin() + static_cast<std::ptrdiff_t>(at), stack_.end());
    stack_.resize(at - 1);
    return true;
  }
  bool push_tuple(size_t size) {
    Items tuple;
    if (stack_.size() < size) return false;
    tuple.items.assign(stack_.end() - static_cast<std::ptrdiff_t>(size), stack_.end());
    stack_.resize(stack_.size() - size);
    return push(std::move(tuple));
  }
  bool push_above_mark(bool is_dictionary) {
    Items made{.is_dictionary = is_dictionary};
    return above_mark(made.items) && push(std::move(made));
  }
  bool extend(const std::vector<uint32_t>& items, bool is_dictionary) {
    if (stack_.empty() || (is_dictionary && items.size() % 2 != 0)) return false;
    auto* into = std::get_if<Items>(&values_[stack_.back()]);
    if (!into || into->is_dictionary != is_dictionary) return false;
    into->items.insert(into->items.end(), items.begin(), items.end());
    copied_ += items.size();
    return copied_ <= most_values;
  }
  bool extend_by(size_t count, bool is_dictionary) {
    if (stack_.size() <= count) return false;
    const std::vector<uint32_t> items(stack_.end() - static_cast<std::ptrdiff_t>(count),
                                      stack_.end());
    stack_.resize(stack_.size() - count);
    return extend(items, is_dictionary);
  }
  bool extend_above_mark(bool is_dictionary) {
    std::vector<uint32_t> items;
    return above_mark(items) && extend(items, is_dictionary);
  }

  bool remember(uint64_t key) {
    if (stack_.empty()) return false;
    memo_[key] = stack_.back();
    return true;
  }
  bool recall(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) return false;
    stack_.push_back(found->second);
    return stack_.size() <= most_values;
  }

  /// torch.jit._pickle.build_intlist([...]) and its sisters: what they are given.
  bool reduce() {
    uint32_t arguments = 0, callee = 0;
    if (!pop(arguments) || !pop(callee)) return false;
    const auto* global = std::get_if<Global>(&values_[callee]);
    const auto* list = std::get_if<Items>(&values_[arguments]);
    const bool known = global && (global->name.starts_with("torch.jit._pickle build_") ||
                                  global->name == "torch.jit._pickle restore_type_tag");
    if (!known || !list || list->is_dictionary || list->items.empty()) return false;
    stack_.push_back(list->items.front());
    return true;
  }

  bool step(unsigned char op) {
    switch (op) {
      case 0x80:  // protocol
        return number(1) >= 2;
      case 0x95:  // frame
        take(8);
        return true;
      case '.':
        stopped_ = true;
        return true;
      case '(':
        return push(Mark{});
      case '0': {
        uint32_t dropped = 0;
        return pop(dropped);
      }
      case 'c': {
        std::string name(line());
        name += ' ';
        return push(Global{name + std::string(line())});
      }
      case 'R':
        return reduce();
      default:
        return step_container(op) || step_scalar(op) || step_memo(op);
    }
  }

  bool step_container(unsigned char op) {
    switch (op) {
      case '}':
        return push(Items{.is_dictionary = true});
      case ']':
      case ')':
        return push(Items{});
      case 't':
      case 'l':
        return push_above_mark(false);
      case 'd':
        return push_above_mark(true);
      case 0x85:
      case 0x86:
      case 0x87:
        return push_tuple(op - 0x84U);
      case 'a':
        return extend_by(1, false);
      case 'e':
        return extend_above_mark(false);
      case 's':
        return extend_by(2, true);
      case 'u':
        return extend_above_mark(true);
      default:
        return false;
    }
  }

  bool step_scalar(unsigned char op) {
    switch (op) {
      case 'N':
        return push(nullptr);
      case 0x88:
      case 0x89:
        return push(op == 0x88);
      case 'J':
        return push(int64_t{static_cast<int32_t>(number(4))});
      case 'K':
        return push(static_cast<int64_t>(number(1)));
      case 'M':
        return push(static_cast<int64_t>(number(2)));
      case 0x8a:
        return push_long(1);
      case 'G':
        return push_big_endian_real();
      case 'X':
      case 'T':
        return push_text(4);
      case 0x8c:
      case 'U':
        return push_text(1);
      default:
        return false;
    }
  }

  bool step_memo(unsigned char op) {
    switch (op) {
      case 'q':
        return remember(number(1));
      case 'r':
        return remember(number(4));
      case 0x94:
        return remember(memo_.size());
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      default:
        return false;
    }
  }

  bool write(uint32_t index, int depth, size_t longest, std::string& json) const {
    if (depth > deepest || json.size() > longest) return false;
    const Value& value = values_[index];
    if (const auto* items = std::get_if<Items>(&value)) return write(*items, depth, longest, json);
    if (const auto* text = std::get_if<std::string>(&value))
      json += json_text(Json(*text), -1);
    else if (const auto* whole = std::get_if<int64_t>(&value))
      json += std::to_string(*whole);
    else if (const auto* truth = std::get_if<bool>(&value))
      json += *truth ? "true" : "false";
    else if (const auto* real = std::get_if<double>(&value))
      json += std::isfinite(*real) ? fmt::format("{}", *real) : "null";
    else if (std::holds_alternative<std::nullptr_t>(value))
      json += "null";
    else
      return false;  // a mark, a global
    return true;
  }

  bool write(const Items& items, int depth, size_t longest, std::string& json) const {
    json += items.is_dictionary ? '{' : '[';
    for (size_t i = 0; i < items.items.size(); ++i) {
      const bool is_value = items.is_dictionary && i % 2 == 1;
      if (i > 0) json += is_value ? ':' : ',';
      if (items.is_dictionary && !is_value) {
        if (!write_key(items.items[i], json)) return false;
      } else if (!write(items.items[i], depth + 1, longest, json)) {
        return false;
      }
    }
    json += items.is_dictionary ? '}' : ']';
    return true;
  }

  bool write_key(uint32_t index, std::string& json) const {
    const Value& value = values_[index];
    if (const auto* text = std::get_if<std::string>(&value))
      json += json_text(Json(*text), -1);
    else if (const auto* whole = std::get_if<int64_t>(&value))
      json += fmt::format("\"{}\"", *whole);
    else
      return false;
    return true;
  }

  std::string_view rest_;
  size_t size_ = 0, copied_ = 0;
  bool broken_ = false, stopped_ = false;
  std::vector<Value> values_;
  std::vector<uint32_t> stack_;
  std::unordered_map<uint64_t, uint32_t> memo_;
};

}  // namespace

Result<std::string> pickle_to_json(std::string_view bytes) {
  return PickleMachine(bytes).run();
}

bool looks_like_pickle(std::string_view head) {
  return head.size() >= 2 && static_cast<unsigned char>(head[0]) == 0x80 && head[1] >= 2 &&
         head[1] <= 5;
}

}  // namespace triplepoint::trace
