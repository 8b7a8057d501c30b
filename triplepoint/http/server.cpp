// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/http/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/text.h"

namespace triplepoint {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds longest_wait{200};
constexpr double slowest_reader_bytes_per_s = 32e3;

Clock::duration duration_of(Seconds time) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time / unit::s));
}

struct Endpoint {
  std::string host, port;
};

Result<Endpoint> endpoint_of(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) endpoint = {listen.substr(0, colon), listen.substr(colon + 1)};
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  if (!number_of_text<uint16_t>(endpoint.port))
    return error("\"{}\" is no address to listen at (ADDRESS:PORT is one); try 127.0.0.1:9400",
                 listen);
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

Result<void> check_allowed(const HttpOptions& options, bool loopback) {
  if (options.token && options.token->empty())
    return error("the token is empty (it would allow access to all); use a random text");
  if (loopback || options.token || options.allow_everybody) return {};
  return error(
      "{} can be reached from other machines (what is served there would be open to all of them); "
      "give --token-file or --allow-everybody, or listen at 127.0.0.1",
      options.listen);
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

bool knows_token(MHD_Connection* connection, const HttpRequest& request, const std::string& token) {
  const std::string said = request.header("authorization").value_or("");
  if (said.starts_with("Bearer ")) return equal_in_constant_time(said.substr(7), token);
  char* password = nullptr;
  char* user = MHD_basic_auth_get_username_password(connection, &password);
  const bool knows = password != nullptr && equal_in_constant_time(password, token);
  MHD_free(user);
  MHD_free(password);
  return knows;
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

/// "/a/../b" climbs, and so does "/..".
bool climbs(std::string_view path) {
  return (std::string(path) + "/").find("/../") != std::string::npos;
}

/// Escapes that the library would leave or cut short: broken ones, and of control characters.
bool has_bad_escape(std::string_view target) {
  for (std::size_t at = target.find('%'); at != std::string_view::npos;
       at = target.find('%', at + 1)) {
    unsigned value = 0;
    const char* digits = target.data() + at + 1;
    if (at + 2 >= target.size() || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2)
      return true;
    if (value < 0x20 || value == 0x7f) return true;
  }
  return false;
}

HttpResponse refusal(int status, std::string problem) {
  return {
      .status = status, .body = std::move(problem) + "\n", .headers = {{"Connection", "close"}}};
}

/// What the library says of a request, and which header is there twice that may be once.
struct ReadRequest {
  HttpRequest request;
  std::string twice;
};

ReadRequest read_request(MHD_Connection* connection, const char* target) {
  ReadRequest read;
  std::string& path = read.request.path;
  path = target;
  if (path.starts_with("http://")) path.erase(0, std::min(path.find('/', 7), path.size()));
  const auto add_query = [](void* to, MHD_ValueKind, const char* name, const char* value) {
    static_cast<ReadRequest*>(to)->request.query[name] = value != nullptr ? value : "";
    return MHD_YES;
  };
  const auto add_header = [](void* to, MHD_ValueKind, const char* name, const char* value) {
    ReadRequest& read = *static_cast<ReadRequest*>(to);
    const std::string lower = lower_case(name), text = value != nullptr ? value : "";
    const auto [entry, is_new] = read.request.headers.try_emplace(lower, text);
    if (is_new) return MHD_YES;
    entry->second += ", " + text;
    if (lower == "host" || lower == "content-length" || lower == "authorization")
      read.twice = lower;
    return MHD_YES;
  };
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_query, &read);
  MHD_get_connection_values(connection, MHD_HEADER_KIND, add_header, &read);
  return read;
}

/// What no handler sees, with its answer; nothing: fine.
std::optional<HttpResponse> refuse(const ReadRequest& read, std::string_view method,
                                   std::string_view version) {
  const HttpRequest& request = read.request;
  if (method != "GET" && method != "HEAD") {
    HttpResponse response = refusal(405, "only GET and HEAD are served here");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  if (version != "HTTP/1.0" && !request.header("host")) return refusal(400, "there is no Host");
  if (!read.twice.empty()) return refusal(400, read.twice + " is said twice");
  if (request.header("transfer-encoding") || request.header("content-length").value_or("0") != "0")
    return refusal(413, "the request has a body");
  if (!request.path.starts_with('/')) return refusal(400, "the target does not begin with /");
  if (climbs(request.path)) return refusal(400, "the path holds ..");
  return std::nullopt;
}

/// Takes the response's body along, so that a large page is not copied.
MHD_Result send(MHD_Connection* connection, HttpResponse response) {
  auto* body = new std::string(std::move(response.body));  // freed with the library's response
  MHD_Response* made = MHD_create_response_from_buffer_with_free_callback_cls(
      body->size(), body->data(), [](void* text) { delete static_cast<std::string*>(text); }, body);
  if (made == nullptr) {
    delete body;
    return MHD_NO;
  }
  response.headers.emplace_back("Server", "triplepoint");
  response.headers.emplace_back("Content-Type", response.content_type);
  // The library takes no header that would begin another line.
  for (const auto& [name, value] : response.headers)
    MHD_add_response_header(made, name.c_str(), value.c_str());
  const MHD_Result queued =
      MHD_queue_response(connection, static_cast<unsigned>(response.status), made);
  MHD_destroy_response(made);
  return queued;
}

/// Of a connection: until when its request, or the answer's reader, may take its time.
struct Client {
  int descriptor = -1;
  bool reads_answer = false;
  Clock::time_point deadline;
};

/// What the library keeps of a request between its calls of us.
char bad_target = 0, seen = 0;

}  // namespace

struct HttpServer::State {
  HttpOptions options;
  Handler handler;
  bool loopback = false;
  Endpoint endpoint;
  int wake = -1;
  MHD_Daemon* daemon = nullptr;
  std::map<MHD_Connection*, Client> clients;

  ~State() {
    if (daemon != nullptr) MHD_stop_daemon(daemon);
    if (wake >= 0) ::close(wake);
  }

  Result<int> listen();
  Result<void> start(int listener);
  HttpResponse answer(MHD_Connection*, const HttpRequest&) const;
  MHD_Result take(MHD_Connection*, const char* target, const char* method, const char* version,
                  void** kept);
  MHD_Result respond(MHD_Connection*, HttpResponse);
  void wait_for_request(MHD_Connection*);
  void begin(MHD_Connection*);
  void end_overdue();
};

HttpResponse HttpServer::State::answer(MHD_Connection* connection,
                                       const HttpRequest& request) const {
  if (options.token && !knows_token(connection, request, *options.token))
    return {.status = 401,
            .body = "a token is needed: Authorization: Bearer TOKEN\n",
            .headers = {{"WWW-Authenticate", "Bearer realm=\"triplepoint\""},
                        {"WWW-Authenticate", "Basic realm=\"triplepoint\""}}};
  if (!options.token && loopback && !names_us(request.header("host").value_or("localhost")))
    return refusal(421, "call this machine localhost, or by its address");
  return handler(request);
}

MHD_Result HttpServer::State::respond(MHD_Connection* connection, HttpResponse response) {
  if (const auto client = clients.find(connection); client != clients.end()) {
    const double bytes = as_real(response.body.size());
    client->second.reads_answer = true;
    client->second.deadline = Clock::now() + duration_of(options.limits.write_time) +
                              duration_of(bytes / slowest_reader_bytes_per_s * unit::s);
  }
  return send(connection, std::move(response));
}

/// Called twice: an answer to the first call, before a body could have come, ends the connection.
MHD_Result HttpServer::State::take(MHD_Connection* connection, const char* target,
                                   const char* method, const char* version, void** kept) {
  if (*kept == &bad_target)
    return respond(connection,
                   refusal(400, "the target holds a broken escape or a control character"));
  const ReadRequest read = read_request(connection, target);
  if (*kept == &seen) return respond(connection, answer(connection, read.request));
  if (auto refused = refuse(read, method, version)) return respond(connection, *std::move(refused));
  *kept = &seen;
  return MHD_YES;
}

void HttpServer::State::wait_for_request(MHD_Connection* connection) {
  const auto client = clients.find(connection);
  if (client == clients.end()) return;
  client->second.reads_answer = false;
  client->second.deadline = Clock::now() + duration_of(options.limits.request_time);
}

/// When all places are taken, the connection that would time out first goes; who reads an answer
/// stays as long as another exists. The library notices the shut socket and closes it.
void HttpServer::State::begin(MHD_Connection* connection) {
  if (clients.size() >= options.limits.connections) {
    const auto first = std::ranges::min_element(clients, {}, [](const auto& entry) {
      return std::make_pair(entry.second.reads_answer, entry.second.deadline);
    });
    ::shutdown(first->second.descriptor, SHUT_RDWR);
    clients.erase(first);
  }
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  clients[connection].descriptor = info->connect_fd;
  wait_for_request(connection);
  // Else idle clients of large pages hold megabytes of the kernel's memory each.
  constexpr int buffer_bytes = 64 * 1024;
  setsockopt(info->connect_fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
}

void HttpServer::State::end_overdue() {
  std::erase_if(clients, [now = Clock::now()](const auto& entry) {
    const bool overdue = entry.second.deadline <= now;
    if (overdue) ::shutdown(entry.second.descriptor, SHUT_RDWR);
    return overdue;
  });
}

Result<int> HttpServer::State::listen() {
  const Endpoint wanted = TPT_TRY(endpoint_of(options.listen));
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(wanted.host.c_str(), wanted.port.c_str(), &hints, &found);
  if (problem != 0)
    return error("cannot listen at {} ({}); try 127.0.0.1:9400", options.listen,
                 gai_strerror(problem));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  loopback = is_loopback(*found->ai_addr);
  TPT_TRY(check_allowed(options, loopback));
  const int listener = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(listener, found->ai_addr, found->ai_addrlen) == 0 && ::listen(listener, 1024) == 0)
    return listener;
  const int why = errno;
  if (listener >= 0) ::close(listener);
  return error("cannot listen at {} ({}); try another port", options.listen, std::strerror(why));
}

/// The library closes the listener.
Result<void> HttpServer::State::start(int listener) {
  endpoint = name_of(listener);
  wake = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  // Files that pages are made from are left beside the connections.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0)
    options.limits.connections =
        std::min<std::size_t>(options.limits.connections, std::max<rlim_t>(files.rlim_cur / 2, 8));
  const MHD_AccessHandlerCallback on_request =
      [](void* self, MHD_Connection* connection, const char* target, const char* method,
         const char* version, const char*, std::size_t*, void** kept) {
        return static_cast<State*>(self)->take(connection, target, method, version, kept);
      };
  void* (*on_target)(void*, const char*, MHD_Connection*) = [](void*, const char* target,
                                                               MHD_Connection*) -> void* {
    return has_bad_escape(target) ? &bad_target : nullptr;
  };
  const MHD_RequestCompletedCallback on_end = [](void* self, MHD_Connection* connection, void**,
                                                 MHD_RequestTerminationCode) {
    static_cast<State*>(self)->wait_for_request(connection);
  };
  const MHD_NotifyConnectionCallback on_connection =
      [](void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode what) {
        if (what == MHD_CONNECTION_NOTIFY_STARTED)
          static_cast<State*>(self)->begin(connection);
        else
          static_cast<State*>(self)->clients.erase(connection);
      };
  // Some above ours, so that a place is free for who comes while another is being closed.
  const auto most = static_cast<unsigned>(options.limits.connections + 64);
  daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, nullptr, nullptr, on_request, this,
                            MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, most,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, options.limits.head_bytes,
                            MHD_OPTION_URI_LOG_CALLBACK, on_target, nullptr,
                            MHD_OPTION_NOTIFY_COMPLETED, on_end, this, MHD_OPTION_NOTIFY_CONNECTION,
                            on_connection, this, MHD_OPTION_END);
  if (daemon != nullptr && wake >= 0) return {};
  if (daemon == nullptr) ::close(listener);
  return error("cannot serve ({}); close some programs", std::strerror(errno));
}

std::optional<std::string> HttpRequest::header(const std::string& lower_case_name) const {
  return value_at(headers, lower_case_name);
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpOptions& options, Handler handler) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->handler = std::move(handler);
  TPT_TRY(state->start(TPT_TRY(state->listen())));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

std::string HttpServer::address() const {
  const Endpoint& at = state_->endpoint;
  const bool v6 = contains(at.host, ':');
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", at.host, v6 ? "]" : "", at.port);
}

uint16_t HttpServer::port() const {
  return static_cast<uint16_t>(std::stoi(state_->endpoint.port));
}

Result<void> HttpServer::serve(const std::function<bool()>& wants_stop) {
  const auto* info = MHD_get_daemon_info(state_->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  std::array<pollfd, 2> ready = {pollfd{info->epoll_fd, POLLIN, 0}, {state_->wake, POLLIN, 0}};
  auto last_look = Clock::now();
  while (!(wants_stop && wants_stop()) && ready[1].revents == 0) {
    MHD_UNSIGNED_LONG_LONG wait = 0;
    if (MHD_get_timeout(state_->daemon, &wait) != MHD_YES) wait = longest_wait.count();
    const auto ms = std::min<MHD_UNSIGNED_LONG_LONG>(wait, longest_wait.count());
    if (::poll(ready.data(), ready.size(), static_cast<int>(ms)) < 0 && errno != EINTR)
      return error("cannot serve any more ({}); start it again", std::strerror(errno));
    MHD_run(state_->daemon);
    if (Clock::now() - last_look < longest_wait) continue;
    state_->end_overdue();  // thousands of them are not looked at for every event
    last_look = Clock::now();
  }
  return {};
}

void HttpServer::stop() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(state_->wake, &one, sizeof one);
}

}  // namespace triplepoint
