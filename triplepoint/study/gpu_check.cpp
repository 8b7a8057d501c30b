// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/gpu_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/library.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/study/measuring.h"
#include "triplepoint/study/training.h"

namespace triplepoint::study {
namespace {

constexpr int steps = 2;

/// What is trained, and how far a GPU's numbers may be from the processor's (relative): sums have
/// other orders, and bf16 rounds at 2^-8.
struct Precision {
  const char *word, *model, *optimizer;
  double tolerance;
};
constexpr Precision precisions[] = {{"fp32", "tiny-llama", "fp32_adamw", 1e-4},
                                    {"bf16", "tiny-gpt", "rounded_adamw", 2e-2}};

Result<spec::Job> tiny_job(const Precision& precision, int64_t ranks) {
  const std::string text = fmt::format(
      R"(name = "gpu-check"
model = "{}"
cluster = "laptop"
nodes = 1
stack = "triplepoint-train"
[plan]
sharding = "none"
micro_batch_size = 1
global_batch_size = {}
precision = "{}"
optimizer = "{}"
)",
      precision.model, 4 * ranks, precision.word, precision.optimizer);
  const spec::Library library = TPT_TRY(spec::require_library());
  spec::Job job = TPT_TRY(spec::parse_job(library, text, "gpu-check.toml"));
  job.model.num_layers = 2;  // a first and a last one
  TPT_TRY(spread_ranks(job, ranks));
  return job;
}

/// What a training printed at its end, or why it did not.
struct Trained {
  std::vector<double> numbers;  // loss and gradient norm of each step
  std::vector<std::string> remarks;
  std::string problem;  // empty: it has ended well
};

/// The sentences on standard error of a training that goes on.
std::vector<std::string> remarks_in(const std::string& printed) {
  constexpr std::string_view begin = "triplepoint-train: ";
  std::vector<std::string> remarks;
  for (const std::string& line : split(printed, '\n'))
    if (line.starts_with(begin)) remarks.push_back(line.substr(begin.size()));
  return remarks;
}

Result<std::vector<double>> numbers_in(const std::string& printed) {
  const size_t at = printed.starts_with("{") ? 0 : printed.find("\n{");
  const Json summary = TPT_TRY(
      parse_json(printed.substr(std::min(at, printed.size())), "the summary of the training"));
  std::vector<double> numbers;
  const Json all = summary.value("steps", Json::array());
  for (const Json& step : all)
    for (const char* key : {"loss", "gradient_norm"})
      numbers.push_back(step.value(key, std::nan("")));
  if (numbers.size() != 2 * steps) return error("its summary does not have two steps");
  return numbers;
}

std::string end_of(const GroupEnd& end, const std::string& printed, Seconds limit) {
  if (end.how == GroupEnd::How::stopped) return "interrupted";
  if (end.how == GroupEnd::How::timed_out)
    return fmt::format(
        "it was still running after {:.0f} s and was ended; see nvidia-smi for other processes and "
        "dmesg for Xid errors",
        limit / unit::s);
  constexpr std::string_view program = "triplepoint-train: ";
  std::string line = telling_line(printed);
  if (line.starts_with(program)) line.erase(0, program.size());
  if (end.code <= 128) return line.empty() ? fmt::format("exit code {}", end.code) : line;
  return fmt::format("it died by signal {} ({}){}", end.code - 128, strsignal(end.code - 128),
                     line.empty() ? "" : ", last line: " + line);
}

/// Prints of the trainer, which ends within the limit.
Result<std::string> printed_by(const GpuCheckRequest& request,
                               const std::vector<std::string>& words, const Path& log) {
  std::vector<std::string> command = {request.trainer.string()};
  command.insert(command.end(), words.begin(), words.end());
  std::error_code ignored;
  std::filesystem::remove(log, ignored);
  const GroupEnd end = TPT_TRY(run_in_group(command, log, request.limit, request.stopped));
  const std::string printed = TPT_TRY(read_file(log));
  if (end.how == GroupEnd::How::exited && end.code == 0) return printed;
  return error(end_of(end, printed, request.limit));
}

Result<JobFile> temporary_job(const std::string& text) {
  std::error_code failed;
  const Path folder = std::filesystem::temp_directory_path(failed);
  return JobFile::write(failed ? Path(".") : folder, text);
}

Trained train_once(const GpuCheckRequest& request, const spec::Job& job,
                   const std::vector<std::string>& device) {
  const Result<JobFile> file = temporary_job(spec::write_job(job));
  if (!file) return {.problem = file.error().what};
  std::vector<std::string> words = {file->path().string(),
                                    "--transport",
                                    "threads",
                                    "--steps",
                                    std::to_string(steps),
                                    "--peak",
                                    "1",
                                    "--format",
                                    "json"};
  words.insert(words.end(), device.begin(), device.end());
  const Result<std::string> printed = printed_by(request, words, file->report());
  if (!printed) return {.problem = printed.error().what};
  const auto numbers = numbers_in(*printed);
  if (!numbers) return {.problem = numbers.error().what};
  return {*numbers, remarks_in(*printed), {}};
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::abs(b[i]);
    if (!(difference <= largest)) largest = difference;  // not a number, too
  }
  return largest;
}

/// Trains on one GPU or several, in each precision; the processor's trainings are kept.
class Checker {
 public:
  explicit Checker(const GpuCheckRequest& request) : request_(request) {}

  Result<GpuCheckResult> check(int64_t first, int64_t ranks) {
    GpuCheckResult result;
    result.works = true;
    const auto begin = std::chrono::steady_clock::now();
    for (const Precision& precision : precisions) {
      const Trained& expected = TPT_TRY(on_processor(precision, ranks)).get();
      const spec::Job job = TPT_TRY(tiny_job(precision, ranks));
      std::vector<std::string> device = {"--device", "cuda", "--device-index",
                                         std::to_string(first)};
      device.insert(device.end(), request_.flags.begin(), request_.flags.end());
      judge(precision, train_once(request_, job, device), expected, result);
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (result.works)
      result.text =
          fmt::format("{} steps as on the CPU (loss and gradient norm within {}), {:.1f} s", steps,
                      result.text, passed.count());
    return result;
  }

 private:
  using Reference = std::reference_wrapper<const Trained>;

  Result<Reference> on_processor(const Precision& precision, int64_t ranks) {
    const auto known = processor_.find({precision.word, ranks});
    if (known != processor_.end()) return Reference(known->second);
    const spec::Job job = TPT_TRY(tiny_job(precision, ranks));
    Trained trained = train_once(request_, job, {});
    if (!trained.problem.empty())
      return error(
          fmt::format("the training without a GPU, to compare with, failed: {}", trained.problem));
    return Reference(
        processor_.emplace(std::pair(std::string(precision.word), ranks), std::move(trained))
            .first->second);
  }

  static void judge(const Precision& precision, const Trained& trained, const Trained& expected,
                    GpuCheckResult& result) {
    std::string text;
    const bool ended = trained.problem.empty();
    const double difference = ended ? largest_difference(trained.numbers, expected.numbers) : 0;
    const bool works = ended && difference <= precision.tolerance;
    if (works)
      text = fmt::format("{:.1e} in {}", difference, precision.word);
    else if (!ended)
      text = fmt::format("{}: {}", precision.word, trained.problem);
    else
      text = fmt::format(
          "{}: loss {:.6g} and gradient norm {:.6g} of step 2 instead of {:.6g} and {:.6g} (off by "
          "{:.1e}, {:.0e} is allowed); try compute-sanitizer triplepoint-train ... --device cuda, "
          "and report it",
          precision.word, trained.numbers[2], trained.numbers[3], expected.numbers[2],
          expected.numbers[3], difference, precision.tolerance);
    if (!works && result.works) result.text.clear();
    if (works && !result.works) return;
    result.works = result.works && works;
    result.text += (result.text.empty() ? "" : works ? " and " : "; ") + text;
    result.remarks.insert(result.remarks.end(), trained.remarks.begin(), trained.remarks.end());
  }

  const GpuCheckRequest& request_;
  std::map<std::pair<std::string, int64_t>, Trained> processor_;
};

std::string line_of(const GpuCheckResult& result) {
  std::string line = fmt::format("{:<9} {}  {}: {}\n", result.who, result.name,
                                 result.works ? "ok" : "failed", result.text);
  constexpr size_t most_remarks = 3;
  for (size_t i = 0; i < std::min(result.remarks.size(), most_remarks); ++i)
    line += fmt::format("{:<9} note: {}\n", "", result.remarks[i]);
  if (result.remarks.size() > most_remarks)
    line += fmt::format("{:<9} and {} more notes (--format json lists them)\n", "",
                        result.remarks.size() - most_remarks);
  return line;
}

}  // namespace

bool GpuCheck::works() const {
  return std::all_of(results.begin(), results.end(),
                     [](const GpuCheckResult& result) { return result.works; });
}

Result<GpuCheck> check_gpu_training(const GpuCheckRequest& request) {
  const JobFile file = TPT_TRY(temporary_job(""));
  std::vector<std::string> words = {"--list-gpus", "--format", "json"};
  words.insert(words.end(), request.flags.begin(), request.flags.end());
  const Result<std::string> listed = printed_by(request, words, file.report());
  if (!listed) return error(fmt::format("no GPU can train here: {}", listed.error().what));
  const Json found = TPT_TRY(parse_json(*listed, "the list of GPUs"));
  GpuCheck check{found.value("driver_cuda", ""), found.value("cublaslt", ""), {}};
  const Json gpus = found.value("gpus", Json::array());
  const auto say = [&](const std::string& line) {
    if (request.say) request.say(line);
  };
  say(fmt::format("driver for CUDA {}, cuBLASLt: {}\n", check.driver_cuda, check.cublaslt));
  Checker checker(request);
  const auto add = [&](const std::string& who, const std::string& name, int64_t first,
                       int64_t ranks) -> Result<void> {
    GpuCheckResult result = TPT_TRY(checker.check(first, ranks));
    result.who = who;
    result.name = name;
    say(line_of(result));
    check.results.push_back(std::move(result));
    return {};
  };
  const auto count = static_cast<int64_t>(gpus.size());
  for (int64_t i = 0; i < count && !request.stopped(); ++i)
    TPT_TRY(add(fmt::format("gpu {}", i), gpus[static_cast<size_t>(i)].value("name", ""), i, 1));
  if (count > 1 && check.works() && !request.stopped())
    TPT_TRY(add(fmt::format("gpus 0-{}", count - 1), "with NCCL", 0, count));
  return check;
}

Json gpu_check_json(const GpuCheck& check) {
  Json results = Json::array();
  for (const GpuCheckResult& result : check.results)
    results.push_back({{"who", result.who},
                       {"name", result.name},
                       {"works", result.works},
                       {"text", result.text},
                       {"remarks", result.remarks}});
  return {{"schema", 1},
          {"works", check.works()},
          {"driver_cuda", check.driver_cuda},
          {"cublaslt", check.cublaslt},
          {"results", results}};
}

}  // namespace triplepoint::study
