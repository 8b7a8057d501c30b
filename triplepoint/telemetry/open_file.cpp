// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/open_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <system_error>
#include <tuple>

#include <fcntl.h>
#include <unistd.h>

#include "triplepoint/base/text.h"

namespace triplepoint::telemetry {
namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

template <class Number>
std::optional<Number> leading(std::string_view text) {
  text = trimmed(text);
  Number number{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc()) return std::nullopt;
  return number;
}

/// "card10" as ("card", 10, "card10"): numbers compare as numbers.
std::tuple<std::string_view, uint64_t, std::string_view> order_of(std::string_view name) {
  const auto digits = name.find_last_not_of("0123456789") + 1;
  return {name.substr(0, digits), leading<uint64_t>(name.substr(digits)).value_or(0), name};
}

}  // namespace

OpenFile::OpenFile(const Path& path)
    : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), errno_(file_ ? 0 : errno) {}

std::string OpenFile::why() const {
  return std::generic_category().message(errno_);
}

std::optional<std::string_view> OpenFile::read(std::span<char> buffer) const {
  if (!file_) return std::nullopt;
  const ssize_t got = pread(file_.number(), buffer.data(), buffer.size(), 0);
  if (got < 0) return std::nullopt;
  return std::string_view(buffer.data(), static_cast<std::size_t>(got));
}

std::optional<double> OpenFile::number() const {
  std::array<char, 128> buffer{};
  const auto text = read(buffer);
  return text ? leading_number(*text) : std::nullopt;
}

std::optional<uint64_t> OpenFile::count() const {
  std::array<char, 128> buffer{};
  const auto text = read(buffer);
  return text ? leading_count(*text) : std::nullopt;
}

std::optional<double> leading_number(std::string_view text) {
  const auto number = leading<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<uint64_t> leading_count(std::string_view text) {
  return leading<uint64_t>(text);
}

std::string first_line(const Path& path) {
  std::array<char, 1024> buffer{};
  const auto text = OpenFile(path).read(buffer);
  return text ? std::string(trimmed(text->substr(0, text->find('\n')))) : "";
}

std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  std::filesystem::directory_iterator entry(folder, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed))
    names.push_back(entry->path().filename());
  std::ranges::sort(names, [](const auto& a, const auto& b) { return order_of(a) < order_of(b); });
  return names;
}

}  // namespace triplepoint::telemetry
