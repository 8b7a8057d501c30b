// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "triplepoint/base/http_server.h"

namespace triplepoint {

/// One client of an HttpServer: bytes in, bytes out, and until when it may take its time.
class HttpConnection {
 public:
  using Clock = std::chrono::steady_clock;
  using Answer = std::function<HttpResponse(const HttpRequest&)>;

  HttpConnection(int descriptor, const HttpLimits& limits, Clock::time_point now);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection(HttpConnection&&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  HttpConnection& operator=(HttpConnection&&) = delete;

  /// Does what can be done without waiting: reads, answers, writes. False: over, to be closed.
  bool advance(const Answer& answer, Clock::time_point now);
  /// The time it had is used up. True: it has got a last answer to write.
  bool give_up(Clock::time_point now);

  int descriptor() const { return descriptor_; }
  bool wants_to_write() const { return written_ < out_.size(); }
  Clock::time_point deadline() const { return deadline_; }
  /// In the middle of nothing: nobody misses it if it is closed.
  bool is_idle() const { return in_.empty() && !wants_to_write(); }

 private:
  enum class Phase { open, last_answer, draining };

  bool read_some();
  bool write_some();
  void answer_requests(const Answer& answer, Clock::time_point now);
  void respond(const HttpResponse& response, bool with_body, bool keep_alive,
               Clock::time_point now);
  bool drain_or_end(Clock::time_point now);
  void wait_for_request(Clock::time_point now);

  int descriptor_;
  HttpLimits limits_;
  std::string in_, out_;
  std::size_t written_ = 0;
  bool reader_ended_ = false;  // the client will send nothing more
  Phase phase_ = Phase::open;
  Clock::time_point deadline_;
};

}  // namespace triplepoint
