// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/http_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace triplepoint {
namespace {

constexpr double slowest_reader_bytes_per_s = 32e3;
constexpr std::chrono::seconds drain_time{1};

HttpConnection::Clock::duration duration_of(Seconds time) {
  using Duration = HttpConnection::Clock::duration;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(time / unit::s));
}

/// Whether a head may have ended: only then is it worth reading it from its beginning.
bool has_blank_line(std::string_view bytes) {
  return bytes.find("\n\r\n") != std::string_view::npos ||
         bytes.find("\n\n") != std::string_view::npos;
}

/// Of a header that a handler made: what would begin another line is left out.
std::string one_line(std::string text) {
  std::erase_if(text, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
  return text;
}

std::string head_of(const HttpResponse& response, bool keep_alive) {
  std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nServer: triplepoint\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: {}\r\n",
      response.status, http_reason(response.status), one_line(response.content_type),
      response.body.size(), keep_alive ? "keep-alive" : "close");
  for (const auto& [name, value] : response.headers)
    head += fmt::format("{}: {}\r\n", one_line(name), one_line(value));
  return head + "\r\n";
}

HttpResponse refusal(int status, const std::string& problem) {
  HttpResponse response;
  response.status = status;
  response.body = problem + "\n";
  if (status == 405) response.headers.emplace_back("Allow", "GET, HEAD");
  return response;
}

bool try_again(int problem) {
  return problem == EAGAIN || problem == EWOULDBLOCK || problem == EINTR;
}

}  // namespace

HttpConnection::HttpConnection(int descriptor, const HttpLimits& limits, Clock::time_point now)
    : descriptor_(descriptor), limits_(limits), deadline_(now + duration_of(limits.head_time)) {}

HttpConnection::~HttpConnection() {
  ::close(descriptor_);
}

bool HttpConnection::read_some() {
  std::array<char, 16384> buffer{};
  // No more than a head: what comes behind it waits in the socket, and so does who sends it.
  while (in_.size() < limits_.head_bytes) {
    const std::size_t room = std::min(buffer.size(), limits_.head_bytes - in_.size());
    const ssize_t count = ::recv(descriptor_, buffer.data(), room, 0);
    if (count < 0) return try_again(errno);
    if (count == 0) {
      reader_ended_ = true;
      return true;
    }
    in_.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return true;
}

bool HttpConnection::write_some() {
  while (wants_to_write()) {
    const ssize_t count =
        ::send(descriptor_, out_.data() + written_, out_.size() - written_, MSG_NOSIGNAL);
    if (count < 0) return try_again(errno);
    written_ += static_cast<std::size_t>(count);
  }
  out_.clear();
  out_.shrink_to_fit();  // a thousand connections hold no thousand pages
  written_ = 0;
  return true;
}

void HttpConnection::respond(const HttpResponse& response, bool with_body, bool keep_alive,
                             Clock::time_point now) {
  out_ = head_of(response, keep_alive);
  if (with_body) out_ += response.body;
  if (!keep_alive) phase_ = Phase::last_answer;
  const double bytes = static_cast<double>(out_.size());
  deadline_ = now + duration_of(limits_.write_time) +
              duration_of(bytes / slowest_reader_bytes_per_s * unit::s);
}

void HttpConnection::wait_for_request(Clock::time_point now) {
  deadline_ = now + duration_of(in_.empty() ? limits_.idle_time : limits_.head_time);
}

/// One answer at a time: who does not read gets no second one made.
void HttpConnection::answer_requests(const Answer& answer, Clock::time_point now) {
  while (phase_ == Phase::open && !wants_to_write()) {
    if (!has_blank_line(in_) && in_.size() < limits_.head_bytes) return;
    const HttpHead head = parse_http_head(in_, limits_.head_bytes);
    if (head.state == HttpHead::State::incomplete) return;
    if (head.state == HttpHead::State::refused)
      return respond(refusal(head.status, head.problem), true, false, now);
    in_.erase(0, head.size);
    respond(answer(head.request), head.request.method == "GET", head.request.keep_alive, now);
    if (!write_some()) phase_ = Phase::draining;
    if (phase_ == Phase::open && !wants_to_write()) wait_for_request(now);
  }
}

/// After the last answer the client's bytes are read and dropped for a moment: closing on unread
/// ones would reset the connection, and the answer might be lost on its way.
bool HttpConnection::drain_or_end(Clock::time_point now) {
  if (phase_ == Phase::last_answer) {
    ::shutdown(descriptor_, SHUT_WR);
    phase_ = Phase::draining;
    deadline_ = now + drain_time;
  }
  std::array<char, 4096> dropped{};
  for (int i = 0; i < 16; ++i) {
    const ssize_t count = ::recv(descriptor_, dropped.data(), dropped.size(), 0);
    if (count == 0 || (count < 0 && !try_again(errno))) return false;
    if (count < 0) return true;
  }
  return true;
}

bool HttpConnection::advance(const Answer& answer, Clock::time_point now) {
  if (phase_ == Phase::draining) return drain_or_end(now);
  const bool was_silent = in_.empty();
  if (!write_some()) return false;
  if (phase_ == Phase::open && !reader_ended_ && !read_some()) return false;
  if (was_silent && !in_.empty() && !wants_to_write()) wait_for_request(now);
  answer_requests(answer, now);
  if (!write_some()) return false;
  if (wants_to_write()) return true;
  if (phase_ == Phase::last_answer) return drain_or_end(now);
  return !reader_ended_;  // half closed: all that was asked has been answered
}

bool HttpConnection::give_up(Clock::time_point now) {
  if (phase_ != Phase::open || wants_to_write() || in_.empty()) return false;
  respond(refusal(408, "the request did not arrive in time"), true, false, now);
  deadline_ = now + drain_time;
  return true;
}

}  // namespace triplepoint
