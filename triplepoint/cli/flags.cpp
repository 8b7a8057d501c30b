// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags.h"

#include <cstdlib>
#include <filesystem>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/tui/document_text.h"

namespace triplepoint::cli {

void print_json(tui::Console& console, const Json& json) {
  Json whole = {{"schema", 1}};
  whole.update(json);
  console.print(json_text(whole) + "\n");
}

void print_warnings(tui::Console& console, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings)
    console.warn(fmt::format("triplepoint: {}\n", warning));
}

void print_answer(tui::Console& console, const answers::Document& answer, const FormatFlag& format,
                  std::string_view csv_table) {
  if (format.is_json())
    print_json(console, answers::document_json(answer));
  else if (format.is_csv())
    console.print(answers::document_csv(answer, csv_table));
  else
    tui::print_document(console, answer);
}

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
    return error("{} holds a token that every user can read; chmod 600 {}", *file, *file);
  std::string token = TPT_TRY(read_file(*file));
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (token.empty() || contains(token, '\n'))
    return error("{} holds no token (one line of text is expected); try openssl rand -hex 16 > {}",
                 *file, *file);
  return std::optional(std::move(token));
}

Result<HttpOptions> ListenFlags::options() const {
  HttpOptions options;
  options.listen = listen_;
  options.token = TPT_TRY(read_token(token_file_));
  options.allow_everybody = everybody_;
  return options;
}

Arguments trace_flags(trace_report::TraceOptions& options) {
  return Arguments()
      .group("Traces")
      .flag("--ranks", "LIST", "only these: 0,2,8-15; or where names say it: 'trace_{rank}.json'",
            into(options.ranks))
      .flag("--step", "STEP", "only this one: a number from 1, or a name", into(options.step))
      .flag("--rules", "RULES", "kernel classes: default, or a file like data/rules/default.toml",
            into(options.rules), {.words = Words::files})
      .flag("--align", "WHEN",
            "align the clocks of ranks at the ends of collectives (default auto: if they differ)",
            into(options.align), {.choices = {"auto", "always", "never"}})
      .flag("-j,--threads", "N", "files read in parallel (default: all cores)",
            into_count(options.threads, 1, 4096))
      .flag("--memory", "SIZE", "memory limit; host spans are dropped first: 4 GB",
            into_quantity(options.memory));
}

}  // namespace triplepoint::cli
