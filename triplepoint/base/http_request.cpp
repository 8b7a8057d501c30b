// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/http_request.h"

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

#include "triplepoint/base/text.h"

namespace triplepoint {
namespace {

/// What a request may not be; caught by parse_http_head alone.
struct Refusal {
  int status = 400;
  std::string problem;
};
using Verdict = std::optional<Refusal>;  // nothing: fine

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// The characters of a method or of a header's name: `token` of RFC 9110.
bool is_token(std::string_view text) {
  const auto allowed = [](char c) {
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

/// The next line without its end (CR LF, or LF alone as people type it); nothing if it has not
/// ended yet.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = rest.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  rest.remove_prefix(end + 1);
  return line;
}

int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// "/a/../b" climbs, and so does "/..".
bool climbs(std::string_view path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

Verdict read_query(std::string_view text, HttpRequest& request) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    if (pair.empty()) continue;
    const std::size_t equal = std::min(pair.find('='), pair.size());
    const auto name = percent_decoded(pair.substr(0, equal), true);
    const auto value = percent_decoded(pair.substr(std::min(equal + 1, pair.size())), true);
    if (!name || !value) return Refusal{400, "the query holds a broken percent escape"};
    request.query[*name] = *value;
  }
  return std::nullopt;
}

Verdict read_target(std::string_view target, HttpRequest& request) {
  if (target.starts_with("http://")) {  // as proxies write it
    const std::size_t slash = target.find('/', 7);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return Refusal{400, "the target does not begin with /"};
  const std::size_t mark = std::min(target.find('?'), target.size());
  const auto path = percent_decoded(target.substr(0, mark));
  if (!path) return Refusal{400, "the path holds a broken percent escape"};
  if (std::any_of(path->begin(), path->end(), is_control))
    return Refusal{400, "the path holds control characters"};
  if (climbs(*path)) return Refusal{400, "the path holds .."};
  request.path = *path;
  return read_query(target.substr(std::min(mark + 1, target.size())), request);
}

/// "HTTP/1.0" and "HTTP/1.1"; later versions of 1 speak as 1.1 does.
Verdict read_version(std::string_view version, HttpRequest& request, bool& needs_host) {
  const bool well_formed = version.size() == 8 && version.starts_with("HTTP/") &&
                           is_digit(version[5]) && version[6] == '.' && is_digit(version[7]);
  if (!well_formed) return Refusal{400, "the first line does not end in a version of HTTP"};
  if (version[5] != '1') return Refusal{505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  needs_host = version[7] != '0';
  request.keep_alive = needs_host;
  return std::nullopt;
}

Verdict read_first_line(std::string_view line, HttpRequest& request, bool& needs_host) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return Refusal{400, "the first line is not METHOD TARGET VERSION"};
  request.method = line.substr(0, first);
  if (!is_token(request.method)) return Refusal{400, "the method is no word"};
  const std::string_view target = line.substr(first + 1, last - first - 1);
  if (target.find(' ') != std::string_view::npos) return Refusal{400, "the target holds a space"};
  if (Verdict wrong = read_version(line.substr(last + 1), request, needs_host)) return wrong;
  if (request.method != "GET" && request.method != "HEAD")
    return Refusal{405, fmt::format("{} is not served here; GET and HEAD are", request.method)};
  return read_target(target, request);
}

Verdict read_header(std::string_view line, HttpRequest& request) {
  if (line.front() == ' ' || line.front() == '\t') return Refusal{400, "a header is folded"};
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return Refusal{400, "a header is not NAME: VALUE"};
  const std::string name = lower_case(line.substr(0, colon));
  const std::string value(trimmed(line.substr(colon + 1), " \t"));
  const auto forbidden = [](char c) { return is_control(c) && c != '\t'; };
  if (std::any_of(value.begin(), value.end(), forbidden))
    return Refusal{400, "a header holds control characters"};
  const auto [entry, is_new] = request.headers.try_emplace(name, value);
  if (is_new) return std::nullopt;
  if (name == "host" || name == "content-length" || name == "authorization")
    return Refusal{400, fmt::format("{} is said twice", name)};
  entry->second += ", " + value;
  return std::nullopt;
}

/// What can only be judged when all headers are there.
Verdict read_meaning(HttpRequest& request, bool needs_host) {
  if (needs_host && !request.header("host")) return Refusal{400, "there is no Host"};
  if (request.header("transfer-encoding") || request.header("content-length").value_or("0") != "0")
    return Refusal{413, "the request has a body"};
  const std::string connection = lower_case(request.header("connection").value_or(""));
  if (connection.find("close") != std::string::npos) request.keep_alive = false;
  if (connection.find("keep-alive") != std::string::npos) request.keep_alive = true;
  return std::nullopt;
}

HttpHead refused(Refusal refusal) {
  HttpHead head;
  head.state = HttpHead::State::refused;
  head.status = refusal.status;
  head.problem = std::move(refusal.problem);
  return head;
}

/// Where a complete head of `bytes` must have ended; longer ones are not waited for.
HttpHead unfinished(std::string_view bytes, std::size_t limit) {
  if (bytes.size() < limit) return {};
  return refused({431, fmt::format("the head is longer than {} bytes", limit)});
}

}  // namespace

std::optional<std::string> HttpRequest::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  if (found == headers.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? digit_of(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    plain += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return plain;
}

HttpHead parse_http_head(std::string_view bytes, std::size_t limit) {
  std::string_view rest = bytes.substr(0, limit);
  // An empty line before a request is left over from the one before (RFC 9112, 2.2).
  while (rest.starts_with("\r\n") || rest.starts_with('\n'))
    rest.remove_prefix(rest.front() == '\n' ? 1 : 2);
  HttpHead head;
  bool needs_host = false;
  const auto first = take_line(rest);
  if (!first) return unfinished(bytes, limit);
  if (Verdict wrong = read_first_line(*first, head.request, needs_host)) return refused(*wrong);
  while (const auto line = take_line(rest)) {
    if (line->empty()) {
      if (Verdict wrong = read_meaning(head.request, needs_host)) return refused(*wrong);
      head.state = HttpHead::State::complete;
      head.size = bytes.substr(0, limit).size() - rest.size();
      return head;
    }
    if (Verdict wrong = read_header(*line, head.request)) return refused(*wrong);
  }
  return unfinished(bytes, limit);
}

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
