// SPDX-License-Identifier: Apache-2.0
#pragma once

// What libc++ for WebAssembly lacks and the library uses; included in front of every file. One
// thread runs, and the files are those that the page has mounted (host.cpp).
#if __cplusplus >= 202002L  // emscripten's sources are older
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

namespace std {

/// As the standard's, in decimal: neither blanks nor a plus in front, no base but ten.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const string text(first, last);
  const char head = text.empty() ? ' ' : text[text[0] == '-' ? 1 : 0];
  const bool hexadecimal = text.find_first_of("xX") != string::npos;
  if (hexadecimal || !((head >= '0' && head <= '9') || head == '.'))
    return {first, errc::invalid_argument};
  char* end = nullptr;
  const double number = strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, errc::invalid_argument};
  const char* stop = first + (end - text.c_str());
  if (number == HUGE_VAL || number == -HUGE_VAL) return {stop, errc::result_out_of_range};
  value = number;
  return {stop, errc()};
}

/// toml++ mentions files, which nothing here opens.
template <>
class basic_ifstream<char> : public istringstream {
 public:
  void open(const auto&, ios_base::openmode) {}
  bool is_open() const { return false; }
};

struct mutex {
  void lock() {}
  void unlock() {}
};
struct stop_token {
  bool stop_requested() const { return false; }
};

namespace filesystem {
bool exists(const path&, error_code&);
bool is_regular_file(const path&, error_code&);
bool is_directory(const path&, error_code&);
uintmax_t file_size(const path&, error_code&);
bool remove(const path&, error_code&);

/// Of a folder nothing is listed: what stands beside a dropped file stays on the user's disk.
struct directory_entry {
  filesystem::path where;
  const filesystem::path& path() const { return where; }
  bool is_directory(error_code&) const { return false; }
};
struct directory_iterator {
  directory_iterator(const path&, error_code&) {}
  const directory_entry* begin() const { return nullptr; }
  const directory_entry* end() const { return nullptr; }
};
}  // namespace filesystem

}  // namespace std
#endif
