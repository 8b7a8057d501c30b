// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

namespace triplepoint {

/// A request as a handler sees it: nothing in it is encoded any more.
struct HttpRequest {
  std::string path;                            // "/runs/a b.run": begins with /, holds no .. or NUL
  std::map<std::string, std::string> query;    // ?name=value&...; the last of equal names
  std::map<std::string, std::string> headers;  // names in lower case

  std::optional<std::string> header(const std::string& lower_case_name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // further ones, "Location" and such
};

/// What a connection may take of us.
struct HttpLimits {
  std::size_t head_bytes = std::size_t{16} * 1024;
  std::size_t connections = 1200;       // above this, the one whose time ends first is closed
  Seconds request_time = 30 * unit::s;  // until a request is complete, also after an answer
  Seconds write_time = 20 * unit::s;    // for a reader slower than 32 kB/s
};

struct HttpOptions {
  std::string listen =
      "127.0.0.1:0";  // "ADDRESS:PORT", "[::1]:PORT", ":PORT" (all); port 0: a free one
  // Bearer token, or the password of Basic authentication (any user), so that browsers can ask.
  std::optional<std::string> token;
  bool allow_everybody = false;  // on an address others reach, without a token
  HttpLimits limits;
};

/// An HTTP/1.1 server for pages and metrics, by libmicrohttpd: one thread, GET and HEAD, no TLS.
///
/// Binds to loopback unless told otherwise; an address that others reach needs a token or
/// allow_everybody. On loopback without a token a request must name the host by address or as
/// localhost, so that no web page reaches it through its own name. The library bounds the memory of
/// a connection; the time of a whole request and of a whole answer, and who has to leave when all
/// places are taken, are bounded here, as the library knows only the time without any byte.
class HttpServer {
 public:
  /// Runs on the server's thread; what takes long holds up the others.
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  /// Binds and listens. Errors: an address that is not there, taken, or not allowed.
  static Result<std::unique_ptr<HttpServer>> open(const HttpOptions&, Handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const;  // "127.0.0.1:9400", with the port it got
  uint16_t port() const;

  /// Serves until stop(), or until `wants_stop` says so (asked five times a second).
  Result<void> serve(const std::function<bool()>& wants_stop = {});
  /// From any thread or signal handler.
  void stop();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace triplepoint
