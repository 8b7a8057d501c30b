// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/chakra/node.h"

namespace triplepoint::trace::chakra {

/// Reads a Chakra execution trace node by node: messages with their length before each, a header
/// and then nodes. Source: mlcommons/chakra, src/third_party/utils/protolib.py (the framing).
class Decoder {
 public:
  /// An error if these bytes do not begin as such a file does.
  static Result<Decoder> open(std::string_view bytes);

  const Header& header() const { return header_; }
  /// The next node into `node`; false at the end. What cannot be read is counted and left out: a
  /// broken field ends its node, a broken length ends the file.
  bool next(Node& node);
  int64_t skipped() const { return skipped_; }
  /// The file ends inside of a message.
  bool is_truncated() const { return truncated_; }

 private:
  std::string_view rest_;
  Header header_;
  int64_t skipped_ = 0;
  bool truncated_ = false;
};

std::string encode(const Header&);
std::string encode(const Node&);

/// Whether these could be the first bytes of such a file.
bool looks_like_chakra(std::string_view head);

}  // namespace triplepoint::trace::chakra
