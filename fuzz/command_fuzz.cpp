// SPDX-License-Identifier: Apache-2.0
// Whole commands: the first line of a text holds the words of a command line, the rest is the
// content of the file that the words name as in.toml, in.csv, in.sh, ... The command runs in an
// empty folder, in this process. It ends with a sentence and a documented exit code, at the latest
// some seconds after an interrupt.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/system/process.h"

#include "wasm/calls.h"

namespace {

using namespace triplepoint;

constexpr auto patience = std::chrono::seconds(5);

// They start programs, open ports, control or measure devices.
constexpr std::string_view not_here[] = {"record",   "train",    "serve",
                                         "exporter", "snapshot", "doctor"};

/// Words cannot lead out of the folder, and start no training.
std::vector<std::string> command_words(std::string_view line) {
  std::vector<std::string> words;
  for (std::string kept : split(line, ' ')) {
    std::erase(kept, '/');
    std::erase(kept, '\0');
    if (!kept.empty()) words.push_back(std::move(kept));
  }
  return words;
}

bool is_harmless(const std::vector<std::string>& words) {
  const bool measures = std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("--meas") || word.starts_with("--this");
  });
  return !words.empty() && !measures &&
         std::ranges::find(not_here, words.front()) == std::end(not_here);
}

class EmptyFolder {
 public:
  EmptyFolder() : before_(std::filesystem::current_path()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "triplepoint-XXXXXX").string();
    TPT_EXPECT(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    std::filesystem::current_path(folder_);
  }
  EmptyFolder(const EmptyFolder&) = delete;
  EmptyFolder& operator=(const EmptyFolder&) = delete;
  ~EmptyFolder() {
    std::filesystem::current_path(before_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  Path before_, folder_;
};

/// As Ctrl-C after `patience`.
class Interrupter {
 public:
  Interrupter()
      : thread_([this](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          if (!ended_.wait_for(lock, stop, patience, [] { return false; }) &&
              !stop.stop_requested())
            set_interrupted(true);
        }) {}
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;
  ~Interrupter() {
    thread_.request_stop();
    thread_.join();
    set_interrupted(false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

void run_command(const std::vector<std::string>& words, std::string_view content) {
  const EmptyFolder folder;
  for (const std::string& word : words)
    if (word.starts_with("in.") && word.size() < 40) (void)write_file_atomically(word, content);
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  const Interrupter interrupter;
  const int code = cli::run_command_line(words, console);
  TPT_ENSURE(code == 0 || code == 1 || code == 2 || code == 130);
  TPT_ENSURE(code != 1 || !err.str().empty() || !out.str().empty());
  TPT_ENSURE(!contains(err.str(), "defect of triplepoint"));
}

std::pair<std::string_view, std::string_view> first_line_and_rest(const std::uint8_t* data,
                                                                  std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(text.find('\n'), size);
  return {text.substr(0, end), text.substr(std::min(end + 1, size))};
}

}  // namespace

extern "C" int fuzz_command(const std::uint8_t* data, std::size_t size) {
  const auto [line, content] = first_line_and_rest(data, size);
  const std::vector<std::string> words = command_words(line);
  if (is_harmless(words)) run_command(words, content);
  return 0;
}

extern "C" void tpt_progress(const char*, std::size_t, std::size_t, std::size_t) {}

/// What the explorer's page asks: a call's name, then its request. The page's own types are right.
extern "C" int fuzz_page_call(const std::uint8_t* data, std::size_t size) {
  const auto [name, request] = first_line_and_rest(data, size);
  const Interrupter interrupter;
  try {
    TPT_ENSURE(Json::parse(explore::call(name, request), nullptr, false).is_object());
  } catch (const Json::type_error&) {
  }
  return 0;
}
