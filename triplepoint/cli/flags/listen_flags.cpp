// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/listen_flags.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/flags/bind.h"

namespace triplepoint::cli {

Arguments ListenFlags::arguments() {
  return Arguments()
      .group("Network")
      .flag("--listen", "ADDRESS:PORT",
            fmt::format("listen address (default {}; port 0: any free port)", listen_),
            into(listen_))
      .flag("--token-file", "FILE",
            "clients must send the token in this file (or in TRIPLEPOINT_TOKEN)", into(token_file_),
            {.words = Words::files})
      .toggle("--allow-everybody", "allow access from the network without a token", everybody_);
}

Result<std::optional<std::string>> read_token(const std::optional<std::string>& file) {
  if (!file) {
    const char* token = std::getenv("TRIPLEPOINT_TOKEN");
    if (token == nullptr || *token == '\0') return std::optional<std::string>();
    return std::optional<std::string>(token);
  }
  std::error_code ignored;
  using std::filesystem::perms;
  const perms granted = std::filesystem::status(*file, ignored).permissions();
  if (!ignored && (granted & (perms::others_read | perms::others_write)) != perms::none)
    return error(
        fmt::format("{} holds a token that every user can read; chmod 600 {}", *file, *file));
  std::string token = TPT_TRY(read_file(*file));
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (token.empty() || token.find('\n') != std::string::npos)
    return error(
        fmt::format("{} holds no token (one line of text is expected); try openssl rand "
                    "-hex 16 > {}",
                    *file, *file));
  return std::optional(std::move(token));
}

Result<HttpOptions> ListenFlags::options() const {
  HttpOptions options;
  options.listen = listen_;
  options.token = TPT_TRY(read_token(token_file_));
  options.allow_everybody = everybody_;
  return options;
}

}  // namespace triplepoint::cli
