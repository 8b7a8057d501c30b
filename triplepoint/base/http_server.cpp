// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/http_server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "triplepoint/base/text.h"

namespace triplepoint {
namespace {

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
  /// Idle: may be closed without loss.
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

using Clock = HttpConnection::Clock;
constexpr std::chrono::milliseconds longest_wait{200};

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }

 private:
  int value_;
};

struct Endpoint {
  std::string host, port;
};

Result<Endpoint> endpoint_of(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) endpoint = {listen.substr(0, colon), listen.substr(colon + 1)};
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  uint16_t port = 0;
  const char* end = endpoint.port.data() + endpoint.port.size();
  const auto [stop, problem] = std::from_chars(endpoint.port.data(), end, port);
  if (endpoint.port.empty() || problem != std::errc() || stop != end)
    return error(
        fmt::format("\"{}\" is no address to listen at (ADDRESS:PORT is one); try "
                    "127.0.0.1:9400",
                    listen));
  if (endpoint.host.empty()) endpoint.host = "0.0.0.0";
  return endpoint;
}

/// The numbers 127.x.x.x and ::1, which only this machine reaches.
bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    return (ntohl(v4.sin_addr.s_addr) >> 24U) == 127;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof v6);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

struct Listener {
  Descriptor socket;
  bool loopback = false;
};

Result<void> check_allowed(const HttpOptions& options, bool loopback) {
  if (options.token && options.token->empty())
    return error("the token is empty (it would allow access to all); use a random text");
  if (loopback || options.token || options.allow_everybody) return {};
  return error(fmt::format(
      "{} can be reached from other machines (what is served there would be open to all of them); "
      "give --token-file or --allow-everybody, or listen at 127.0.0.1",
      options.listen));
}

Result<Listener> listen_at(const HttpOptions& options) {
  const Endpoint endpoint = TPT_TRY(endpoint_of(options.listen));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(endpoint.host.c_str(), endpoint.port.c_str(), &hints, &found);
  if (problem != 0)
    return error(fmt::format("cannot listen at {} ({}); try 127.0.0.1:9400", options.listen,
                             gai_strerror(problem)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  Listener listener;
  listener.loopback = is_loopback(*found->ai_addr);
  TPT_TRY(check_allowed(options, listener.loopback));
  listener.socket =
      Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (listener.socket.get() >= 0)
    setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (listener.socket.get() < 0 ||
      ::bind(listener.socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener.socket.get(), 1024) != 0)
    return error(fmt::format("cannot listen at {} ({}); try another port", options.listen,
                             std::strerror(errno)));
  return listener;
}

/// The port the system gave, and the address as a text.
Endpoint name_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(),
              port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  return {host.data(), port.data()};
}

/// As long for a wrong guess as for the right one.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned char>(b.empty() ? '\0' : b[i % b.size()]);
  return difference == 0;
}

/// RFC 4648; nothing for what is none.
std::optional<std::string> base64_decoded(std::string_view text) {
  static constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string plain;
  unsigned bits = 0, count = 0;
  while (text.ends_with('='))
    text.remove_suffix(1);
  for (const char c : text) {
    const std::size_t value = letters.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6U | static_cast<unsigned>(value)) & 0xffffffU;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    plain += static_cast<char>(bits >> count & 0xffU);
  }
  return plain;
}

bool knows_token(const HttpRequest& request, const std::string& token) {
  const std::string said = request.header("authorization").value_or("");
  if (said.starts_with("Bearer ")) return equal_in_constant_time(said.substr(7), token);
  if (!said.starts_with("Basic ")) return false;
  const auto pair = base64_decoded(std::string_view(said).substr(6));
  const std::size_t colon = pair ? pair->find(':') : std::string::npos;
  return colon != std::string::npos && equal_in_constant_time(pair->substr(colon + 1), token);
}

/// "localhost", or a numeric address: no name from DNS.
bool names_us(std::string host) {
  if (host.starts_with('[')) return true;
  host = lower_case(host.substr(0, host.find(':')));
  if (host.ends_with('.')) host.pop_back();
  in_addr ignored{};
  return host == "localhost" || host.ends_with(".localhost") ||
         inet_pton(AF_INET, host.c_str(), &ignored) == 1;
}

}  // namespace

struct HttpServer::State {
  HttpOptions options;
  Handler handler;
  Listener listener;
  Endpoint endpoint;
  Descriptor epoll, wake;
  // By descriptor. The map is small, and its order fixes who is served first.
  std::map<int, std::unique_ptr<HttpConnection>> connections;

  HttpResponse answer(const HttpRequest& request) const;
  bool watch(int descriptor, uint32_t events, bool is_new) const;
  void accept_all(Clock::time_point now);
  bool make_room(Clock::time_point now);
  void advance(int descriptor, Clock::time_point now);
  void end_overdue(Clock::time_point now);
  int wait_ms(Clock::time_point now) const;
  bool take_events(Clock::time_point now, int count, const epoll_event* events);
};

HttpResponse HttpServer::State::answer(const HttpRequest& request) const {
  if (options.token && !knows_token(request, *options.token))
    return {.status = 401,
            .body = "a token is needed: Authorization: Bearer TOKEN\n",
            .headers = {{"WWW-Authenticate", "Bearer realm=\"triplepoint\""},
                        {"WWW-Authenticate", "Basic realm=\"triplepoint\""}}};
  if (!options.token && listener.loopback &&
      !names_us(request.header("host").value_or("localhost")))
    return {
        .status = 421, .body = "call this machine localhost, or by its address\n", .headers = {}};
  return handler(request);
}

bool HttpServer::State::watch(int descriptor, uint32_t events, bool is_new) const {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  return ::epoll_ctl(epoll.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) == 0;
}

/// Closes the connection that would time out first. Connections with an open request stay as long
/// as an idle one exists.
bool HttpServer::State::make_room(Clock::time_point) {
  auto victim = connections.end();
  for (auto it = connections.begin(); it != connections.end(); ++it) {
    if (victim == connections.end()) victim = it;
    const auto rank = [](const HttpConnection& c) {
      return std::make_pair(c.wants_to_write(), c.deadline());
    };
    if (rank(*it->second) < rank(*victim->second)) victim = it;
  }
  if (victim == connections.end()) return false;
  connections.erase(victim);
  return true;
}

void HttpServer::State::accept_all(Clock::time_point now) {
  for (int i = 0; i < 256; ++i) {  // then those who are here already are looked at
    const int descriptor =
        ::accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) {
      const bool no_more_files = errno == EMFILE || errno == ENFILE;
      if (!no_more_files || !make_room(now)) return;
      continue;
    }
    // Else idle clients of large pages hold megabytes of the kernel's memory each.
    constexpr int buffer_bytes = 64 * 1024;
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
    if (connections.size() >= options.limits.connections) make_room(now);
    connections[descriptor] = std::make_unique<HttpConnection>(descriptor, options.limits, now);
    if (!watch(descriptor, EPOLLIN | EPOLLRDHUP, true)) connections.erase(descriptor);
  }
}

void HttpServer::State::advance(int descriptor, Clock::time_point now) {
  const auto found = connections.find(descriptor);
  if (found == connections.end()) return;
  const auto reply = [this](const HttpRequest& request) { return answer(request); };
  if (!found->second->advance(reply, now)) {
    connections.erase(found);
    return;
  }
  watch(descriptor, found->second->wants_to_write() ? EPOLLOUT : EPOLLIN, false);
}

void HttpServer::State::end_overdue(Clock::time_point now) {
  for (auto it = connections.begin(); it != connections.end();) {
    HttpConnection& connection = *it->second;
    const bool overdue = connection.deadline() <= now;
    if (overdue && !connection.give_up(now)) {
      it = connections.erase(it);
      continue;
    }
    if (overdue) watch(it->first, EPOLLOUT, false);
    ++it;
  }
}

bool HttpServer::State::take_events(Clock::time_point now, int count, const epoll_event* events) {
  bool goes_on = true;
  for (int i = 0; i < count; ++i) {
    const int descriptor = events[i].data.fd;
    if (descriptor == wake.get())
      goes_on = false;
    else if (descriptor == listener.socket.get())
      accept_all(now);
    else
      advance(descriptor, now);
  }
  return goes_on;
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpOptions& options, Handler handler) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->handler = std::move(handler);
  state->listener = TPT_TRY(listen_at(options));
  state->endpoint = name_of(state->listener.socket.get());
  state->epoll = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  state->wake = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  const bool watched = state->epoll.get() >= 0 && state->wake.get() >= 0 &&
                       state->watch(state->listener.socket.get(), EPOLLIN, true) &&
                       state->watch(state->wake.get(), EPOLLIN, true);
  if (!watched)
    return error(fmt::format("cannot serve ({}); close some programs", std::strerror(errno)));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

std::string HttpServer::address() const {
  const Endpoint& at = state_->endpoint;
  const bool v6 = at.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", at.host, v6 ? "]" : "", at.port);
}

uint16_t HttpServer::port() const {
  return static_cast<uint16_t>(std::stoi(state_->endpoint.port));
}

Result<void> HttpServer::serve(const std::function<bool()>& wants_stop) {
  std::array<epoll_event, 256> events{};
  auto last_look = Clock::now();
  for (bool goes_on = true; goes_on && !(wants_stop && wants_stop());) {
    const int count = ::epoll_wait(state_->epoll.get(), events.data(), events.size(),
                                   static_cast<int>(longest_wait.count()));
    if (count < 0 && errno != EINTR)
      return error(fmt::format("cannot serve any more ({}); start it again", std::strerror(errno)));
    const auto now = Clock::now();
    goes_on = state_->take_events(now, count, events.data());
    if (now - last_look < longest_wait) continue;
    state_->end_overdue(now);  // thousands of them are not looked at for every event
    last_look = now;
  }
  state_->connections.clear();
  uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t read = ::read(state_->wake.get(), &ignored, sizeof ignored);
  return {};
}

void HttpServer::stop() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(state_->wake.get(), &one, sizeof one);
}

std::string_view http_reason(int status) {
  static const std::map<int, std::string_view> words = {
      {200, "OK"},
      {204, "No Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {303, "See Other"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {413, "Content Too Large"},
      {421, "Misdirected Request"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {503, "Service Unavailable"},
      {505, "HTTP Version Not Supported"},
  };
  const auto found = words.find(status);
  return found == words.end() ? "Status" : found->second;
}

}  // namespace triplepoint
