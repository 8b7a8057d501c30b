// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/http_request.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

namespace triplepoint {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // further ones, "Location" and such
};

/// What a connection may take of us.
struct HttpLimits {
  std::size_t head_bytes = std::size_t{16} * 1024;
  std::size_t connections = 1200;     // above this, the connection idle for longest is closed
  Seconds head_time = 10 * unit::s;   // from its first byte to its last
  Seconds idle_time = 75 * unit::s;   // between two requests
  Seconds write_time = 20 * unit::s;  // for a reader slower than 32 kB/s
};

struct HttpOptions {
  std::string listen =
      "127.0.0.1:0";  // "ADDRESS:PORT", "[::1]:PORT", ":PORT" (all); port 0: a free one
  // Bearer token, or the password of Basic authentication (any user), so that browsers can ask.
  std::optional<std::string> token;
  bool allow_everybody = false;  // on an address others reach, without a token
  HttpLimits limits;
};

/// A small HTTP/1.1 server for pages and metrics: one thread, GET and HEAD, keep-alive, no TLS.
///
/// Binds to loopback unless told otherwise; an address that others reach needs a token or
/// allow_everybody. On loopback without a token a request must name the host by address or as
/// localhost, so that no web page reaches it through its own name. Slow, silent, broken and
/// too many clients cost a bounded amount of memory and no thread.
class HttpServer {
 public:
  /// Runs on the server's thread; what takes long holds up the others.
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  /// Binds and listens. Errors: an address that is not there, taken, or not allowed.
  static Result<std::unique_ptr<HttpServer>> open(const HttpOptions&, Handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer(HttpServer&&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  HttpServer& operator=(HttpServer&&) = delete;

  std::string address() const;  // "127.0.0.1:9400", with the port it got
  uint16_t port() const;

  /// Serves until stop(), or until `wants_stop` says so (asked five times a second). Requests that
  /// are complete by then are answered.
  Result<void> serve(const std::function<bool()>& wants_stop = {});
  /// From any thread or signal handler.
  void stop();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The words of a status: 404 is "Not Found".
std::string_view http_reason(int status);

}  // namespace triplepoint
