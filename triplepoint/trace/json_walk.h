// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"

namespace triplepoint::trace {

/// Walks through a JSON document of any size with one value in memory at a time.
///
///   JsonWalk walk(input, {"", ".nodes"});   // look into the document and into its "nodes"
///   JsonItem item;
///   while (TPT_TRY(walk.next(item)))
///     if (item.path == ".nodes[]") ...      // one node after the other
///
/// The path of a member is that of its object, a point and its key; that of an element is that of
/// its array and "[]". A path that ends with * stands for all members of an object. Values that are
/// looked into are no items themselves. A file that ends too early gives what it has; a value that
/// is not JSON is stepped over and counted.
struct JsonItem {
  std::string path;
  std::string_view text;  // valid until the next call
};
class JsonWalk {
 public:
  JsonWalk(Input& input, std::initializer_list<std::string_view> into)
      : input_(input), into_(into.begin(), into.end()) {}

  /// False at the end. An error if the document is no JSON at all or the input cannot be read.
  Result<bool> next(JsonItem&);
  bool is_truncated() const { return truncated_; }
  int64_t broken() const { return broken_; }

 private:
  struct Level {
    bool is_array = false;
    std::string path;
  };
  enum class Step { item, again, end };
  Result<Step> step(JsonItem&);
  Result<Step> name_item(char c, JsonItem&);
  Result<Step> take_value(JsonItem&);
  Step pass_broken();
  Step stop_short();
  /// The first byte that is no space, not skipped; 0 at the end.
  Result<char> first_visible(bool pass_commas);
  /// The value's text ahead; nothing if the input ends before it does.
  Result<std::optional<std::string_view>> value();
  Result<bool> read_key(std::string& key);
  bool looks_into(std::string_view path) const;

  Input& input_;
  std::vector<std::string> into_;
  std::vector<Level> levels_;
  size_t pending_ = 0;  // of the item given last
  bool began_ = false, truncated_ = false;
  int64_t broken_ = 0;
};

/// Where the value ends that begins at the front of `text` (which is no space): its length. 0: it
/// does not end in this text; npos: it is no value.
size_t json_value_length(std::string_view text);

}  // namespace triplepoint::trace
