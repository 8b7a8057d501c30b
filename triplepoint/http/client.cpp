// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/http/client.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace triplepoint {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t most_bytes = std::size_t{64} << 20U;

struct Authority {
  std::string host, port;
};

Result<Authority> authority_of(std::string where) {
  if (where.starts_with("http://")) where.erase(0, 7);
  if (where.starts_with("https://"))
    return error(fmt::format("{} requires TLS (not supported); tunnel it with ssh -L", where));
  where.erase(std::min(where.find('/'), where.size()));
  const std::size_t colon = where.rfind(':');
  if (colon == std::string::npos || where.ends_with(']')) return Authority{where, "9400"};
  Authority authority{where.substr(0, colon), where.substr(colon + 1)};
  if (authority.host.starts_with('[') && authority.host.ends_with(']'))
    authority.host = authority.host.substr(1, authority.host.size() - 2);
  return authority;
}

/// One exchange, over a socket that does not block.
class Exchange {
 public:
  Exchange(std::string name, const std::stop_token& stop)
      : name_(std::move(name)), stop_(stop), end_(Clock::now() + std::chrono::seconds(10)) {}
  ~Exchange() {
    if (socket_ >= 0) ::close(socket_);
  }
  Exchange(const Exchange&) = delete;
  Exchange(Exchange&&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  Exchange& operator=(Exchange&&) = delete;

  Result<void> connect(const Authority& authority) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int wrong = getaddrinfo(authority.host.c_str(), authority.port.c_str(), &hints, &found);
    if (wrong != 0) return failed(gai_strerror(wrong));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
    int problem = 0;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      problem = try_address(*one);
      if (problem == 0) return {};
    }
    return failed(std::strerror(problem));
  }
  Result<void> send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (count > 0)
        text.remove_prefix(static_cast<std::size_t>(count));
      else if (errno != EAGAIN || !wait(POLLOUT))
        return failed("it does not listen");
    }
    return {};
  }
  Result<std::string> rest() {
    std::string all;
    char buffer[65536];
    while (all.size() < most_bytes) {
      const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count == 0) return all;
      if (count > 0)
        all.append(buffer, static_cast<std::size_t>(count));
      else if (errno != EAGAIN || !wait(POLLIN))
        return failed("it does not answer");
    }
    return failed("the answer does not end");
  }

 private:
  tl::unexpected<Error> failed(const char* why) const {
    return error(
        fmt::format("cannot reach {} ({}); is triplepoint exporter running there, and "
                    "listening at an address that others reach?",
                    name_, why));
  }
  int try_address(const addrinfo& address) {
    if (socket_ >= 0) ::close(socket_);
    socket_ = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return errno;
    if (::connect(socket_, address.ai_addr, address.ai_addrlen) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    if (!wait(POLLOUT)) return ETIMEDOUT;
    int problem = 0;
    socklen_t size = sizeof problem;
    ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &problem, &size);
    return problem;
  }
  bool wait(int16_t events) const {
    while (Clock::now() < end_ && !stop_.stop_requested()) {
      pollfd ready{socket_, events, 0};
      if (::poll(&ready, 1, 100) > 0) return true;
    }
    return false;
  }

  std::string name_;
  std::stop_token stop_;
  Clock::time_point end_;
  int socket_ = -1;
};

}  // namespace

Result<std::string> http_get(const std::string& where, const std::string& path,
                             const std::optional<std::string>& token, const std::stop_token& stop) {
  const Authority authority = TPT_TRY(authority_of(where));
  Exchange exchange(where, stop);
  TPT_TRY(exchange.connect(authority));
  const bool v6 = authority.host.find(':') != std::string::npos;
  std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: {}{}{}:{}\r\nConnection: close\r\n", path,
                  v6 ? "[" : "", authority.host, v6 ? "]" : "", authority.port);
  if (token) request += fmt::format("Authorization: Bearer {}\r\n", *token);
  TPT_TRY(exchange.send(request + "\r\n"));
  std::string answer = TPT_TRY(exchange.rest());
  const std::size_t end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || end == std::string::npos)
    return error(
        fmt::format("{} answers, but not as a web server does; is the port right?", where));
  const std::string status = answer.substr(9, 3);
  if (status == "401")
    return error(fmt::format("{} requires a token; give it with --token-file", where));
  if (status != "200")
    return error(
        fmt::format("{} answers with status {} (it has no /snapshot.json); is it "
                    "triplepoint exporter?",
                    where, status));
  return answer.substr(end + 4);
}

}  // namespace triplepoint
