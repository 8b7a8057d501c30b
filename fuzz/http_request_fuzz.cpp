// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/http_request.h"

using triplepoint::HttpHead;

/// A complete head ends inside of the bytes, leads nowhere outside, and what is cut off is not
/// complete any more.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const HttpHead head = triplepoint::parse_http_head(bytes, 4096);
  if (head.state != HttpHead::State::complete) {
    TPT_ENSURE(head.state == HttpHead::State::incomplete || !head.problem.empty());
    return 0;
  }
  TPT_ENSURE(head.size > 0 && head.size <= bytes.size() && head.size <= 4096);
  TPT_ENSURE(head.request.path.starts_with('/'));
  TPT_ENSURE((head.request.path + "/").find("/../") == std::string::npos);
  const HttpHead shorter = triplepoint::parse_http_head(bytes.substr(0, head.size - 1), 4096);
  TPT_ENSURE(shorter.state == HttpHead::State::incomplete);
  return 0;
}
