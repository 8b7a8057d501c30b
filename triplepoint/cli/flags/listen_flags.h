// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/cli/command.h"
#include "triplepoint/http/server.h"

namespace triplepoint::cli {

/// The flags of commands that listen on a socket: --listen, --token-file, --allow-everybody.
class ListenFlags {
 public:
  explicit ListenFlags(std::string listen) : listen_(std::move(listen)) {}
  Arguments arguments();
  /// With the token read: from the file, else from TRIPLEPOINT_TOKEN. A file others may read, or
  /// without a token in it, is an error.
  Result<HttpOptions> options() const;

 private:
  std::string listen_;
  std::optional<std::string> token_file_;
  bool everybody_ = false;
};

/// The token of --token-file, else of TRIPLEPOINT_TOKEN; nothing if neither is there.
Result<std::optional<std::string>> read_token(const std::optional<std::string>& file);

}  // namespace triplepoint::cli
