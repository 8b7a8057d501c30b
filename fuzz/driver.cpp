// SPDX-License-Identifier: Apache-2.0
// A fuzzing driver for compilers without one: mutates the texts of a corpus, blind to coverage, for
// a given time. Takes libFuzzer's arguments: -max_total_time=, -max_len=, -seed=,
// -artifact_prefix=, corpus folders or single files; others are ignored. The input that crashed the
// target is written before the process ends.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  double seconds = 30;
  std::size_t longest = 20000;
  std::uint64_t seed = 1;
  std::string artifact_prefix = "finding-";
  std::vector<std::filesystem::path> corpus;
};

// What a dying process has to say; signal handlers see nothing but globals.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::string current_input, artifact;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void save_finding() {
  const int file = ::open(artifact.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::write(file, current_input.data(), current_input.size()) < 0)
    std::fputs("the finding could not be written\n", stderr);
  else
    std::fprintf(stderr, "the input that did it is %s\n", artifact.c_str());
}

void on_signal(int number) {
  save_finding();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::string value(word.substr(std::min(word.find('=') + 1, word.size())));
    if (word.starts_with("-max_total_time="))
      options.seconds = std::atof(value.c_str());
    else if (word.starts_with("-max_len="))
      options.longest = std::strtoull(value.c_str(), nullptr, 10);
    else if (word.starts_with("-seed="))
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (word.starts_with("-artifact_prefix="))
      options.artifact_prefix = value;
    else if (!word.starts_with('-'))
      options.corpus.emplace_back(word);
  }
  return options;
}

std::string file_content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> read_corpus(const Options& options) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : options.corpus) {
    if (std::filesystem::is_directory(path)) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path());
    } else if (std::filesystem::exists(path)) {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts = {""};
  for (const auto& file : files)
    texts.push_back(file_content(file));
  return texts;
}

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, const Options& options)
      : corpus_(corpus), longest_(options.longest), random_(options.seed) {}

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t i = 1 + below(8); i > 0; --i)
      change(text);
    text.resize(std::min(text.size(), longest_));
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t size = below(std::min<std::size_t>(text.size() - at, 64) + 1);
    switch (below(7)) {
      case 0:
        return flip(text);
      case 1:
        text.erase(at, size);
        return;
      case 2:
        text.insert(at, 1 + below(4), static_cast<char>(below(256)));
        return;
      case 3:
        text.insert(at, text.substr(at, size));
        return;
      case 4:
        text.insert(at, odd_texts[below(std::size(odd_texts))]);
        return;
      case 5:
        return splice(text, at);
      default:
        text.replace(at, size, odd_texts[below(std::size(odd_texts))]);
    }
  }

  void flip(std::string& text) {
    if (text.empty()) return;
    char& byte = text[below(text.size())];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << below(8)));
  }

  void splice(std::string& text, std::size_t at) {
    const std::string& other = corpus_[below(corpus_.size())];
    const std::size_t from = below(other.size() + 1);
    text.insert(at, other.substr(from, below(512)));
  }

  /// What readers stumble over.
  static constexpr std::string_view odd_texts[] = {"0",
                                                   "-1",
                                                   "1e999",
                                                   "nan",
                                                   "18446744073709551616",
                                                   "-9223372036854775808",
                                                   "0.1",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "\"",
                                                   "'",
                                                   "\\",
                                                   "\\u0",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   ",",
                                                   ":",
                                                   "=",
                                                   "#",
                                                   "--",
                                                   "- ",
                                                   "  ",
                                                   "\xEF\xBB\xBF",
                                                   "\xFF",
                                                   "\x00",
                                                   "[[",
                                                   "]]",
                                                   "true",
                                                   "null",
                                                   "&a ",
                                                   "*a ",
                                                   "!!",
                                                   "<<: *a",
                                                   "%",
                                                   "°C",
                                                   "/s",
                                                   "..."};

  const std::vector<std::string>& corpus_;
  std::size_t longest_;
  std::mt19937_64 random_;
};

void run_once(std::string input) {
  current_input = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current_input.data()),
                         current_input.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  artifact = options.artifact_prefix + "crash";
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    ::signal(number, on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_finding);

  const std::vector<std::string> corpus = read_corpus(options);
  for (const std::string& text : corpus)
    run_once(text);
  Mutator mutator(corpus, options);
  std::size_t runs = corpus.size();
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  for (; Clock::now() < end; ++runs)
    run_once(mutator.next());
  std::printf("%zu runs on texts mutated from %zu, no finding\n", runs, corpus.size());
  return 0;
}
