// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

namespace triplepoint {

/// A request as a handler sees it: nothing in it is encoded any more.
struct HttpRequest {
  std::string method;                          // "GET" or "HEAD"
  std::string path;                            // "/runs/a b.run": begins with /, holds no .. or NUL
  std::map<std::string, std::string> query;    // ?name=value&...; the last of equal names
  std::map<std::string, std::string> headers;  // names in lower case
  bool keep_alive = true;

  std::optional<std::string> header(const std::string& lower_case_name) const;
};

/// What the bytes that have arrived so far are.
struct HttpHead {
  enum class State { incomplete, complete, refused };
  State state = State::incomplete;
  std::size_t size = 0;  // of a complete head: the next one begins there
  HttpRequest request;
  int status = 400;     // of a refused one
  std::string problem;  // in a sentence
};

/// Reads the first request out of `bytes`, RFC 9112 without bodies: only GET and HEAD are served.
///
/// Refused, with the status that says why: other methods (405), bodies (413), paths that leave the
/// tree or hold control characters (400), heads beyond `limit` bytes (431), folded lines, spaces
/// before colons, two Hosts, none in HTTP/1.1 (400), other versions (505).
HttpHead parse_http_head(std::string_view bytes, std::size_t limit);

/// %41 becomes A; nothing for a broken escape. `plus_is_space`: as forms write queries.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space = false);

/// The body of http://AUTHORITY/PATH; `where` is "host:port" or "http://host:port". At most ten
/// seconds and 64 MB. Errors: unreachable, another status than 200, no HTTP.
Result<std::string> http_get(const std::string& where, const std::string& path,
                             const std::optional<std::string>& token, const std::stop_token& stop);

}  // namespace triplepoint
