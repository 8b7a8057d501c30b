// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/sentence_check_testing.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

namespace triplepoint::report {
namespace {

const Json* job_named(const Json& results, const std::string& name) {
  for (const Json& job : results.at("jobs"))
    if (job.value("name", "") == name) return &job;
  return nullptr;
}

/// The number under a dotted key; absent if there is none.
std::optional<double> number_under(const Json& object, std::string key) {
  const Json* at = &object;
  while (!key.empty()) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    const std::string step = key.substr(0, dot);
    key.erase(0, std::min(key.size(), dot + 1));
    if (!at->is_object() || !at->contains(step)) return std::nullopt;
    at = &at->at(step);
  }
  return at->is_number() ? std::optional<double>(at->get<double>()) : std::nullopt;
}

double value_of(const Term& term, const Json& results) {
  const Json* object = term.job.empty() ? &results : job_named(results, term.job);
  if (object == nullptr) return std::nan("");
  return number_under(*object, term.key).value_or(std::nan(""));
}

double value_of(const Evidence& evidence, const Json& results) {
  const auto product = [&](const std::vector<Term>& terms) {
    double all = 1;
    for (const Term& term : terms)
      all *= value_of(term, results);
    return all;
  };
  const double above = product(evidence.above), below = product(evidence.below);
  switch (evidence.form) {
    case Evidence::Form::value:
      return above / below;
    case Evidence::Form::more:
      return above / below - 1;
    case Evidence::Form::less:
      return 1 - above / below;
    case Evidence::Form::difference:
      return above - below;
  }
  return above;
}

/// "1,465 s" is 1465, "31 %" is 0.31; half of its last digit.
struct PrintedNumber {
  double value = 0, half_digit = 0;
};
PrintedNumber read_printed(std::string text) {
  const bool is_percent = text.find('%') != std::string::npos;
  text = text.substr(0, text.find(' '));
  std::erase(text, ',');
  const std::size_t point = text.find('.');
  const double decimals =
      point == std::string::npos ? 0 : static_cast<double>(text.size() - point - 1);
  const double scale = is_percent ? 0.01 : 1;
  return {std::stod(text) * scale, 0.5 * std::pow(10.0, -decimals) * scale};
}

void check(const Evidence& evidence, const Json& results, std::vector<std::string>& faults) {
  const double value = value_of(evidence, results);
  const PrintedNumber printed = read_printed(evidence.printed);
  if (!(std::abs(evidence.value - value) <= 1e-9 * std::max(1.0, std::abs(value))))
    faults.push_back(
        fmt::format("{} is {}, results.json says {}", formula_of(evidence), evidence.value, value));
  if (!(std::abs(printed.value - value) <= printed.half_digit * 1.0001))
    faults.push_back(fmt::format("printed {}, results.json says {}", evidence.printed, value));
}

/// Every word of a name that holds a digit must be what the configuration says.
bool is_of_configuration(const std::string& word, const Json& configuration) {
  static const std::pair<const char*, const char*> sizes[] = {{"TP", "tensor_parallel_size"},
                                                              {"PP", "pipeline_parallel_size"},
                                                              {"EP", "expert_parallel_size"},
                                                              {"VPP", "virtual_pipeline_size"},
                                                              {"CP", "context_parallel_size"},
                                                              {"", "micro_batch_size"},
                                                              {"", "num_gpus"}};
  for (const auto& [prefix, key] : sizes)
    if (word == fmt::format("{}{}", prefix, configuration.at(key).get<int64_t>())) return true;
  return word == upper_case(configuration.at("gpu").get<std::string>());
}

void check(const Name& name, const Json& results, std::vector<std::string>& faults) {
  const Json* job = job_named(results, name.job);
  if (job == nullptr) {
    faults.push_back("no job is called " + name.job);
    return;
  }
  std::string text = name.text;
  if (text == name.job || job->at("configuration").is_null()) return;
  const Json& configuration = job->at("configuration");
  const std::string model = configuration.at("model").get<std::string>();
  if (text.starts_with(model)) text.erase(0, model.size());
  static const std::regex words("[A-Za-z0-9]+");
  for (std::sregex_iterator word(text.begin(), text.end(), words), end; word != end; ++word) {
    const std::string found = word->str();
    if (std::any_of(found.begin(), found.end(), [](unsigned char c) { return std::isdigit(c); }) &&
        !is_of_configuration(found, configuration))
      faults.push_back(fmt::format("{} in {} is not of {}", found, name.text, name.job));
  }
}

/// The sentence without its names and its evidence, each once from left to right.
std::string rest_of(const Finding& sentence) {
  std::string rest = sentence.text();
  const auto remove = [&](const std::string& part) {
    const std::size_t at = rest.find(part);
    if (at != std::string::npos) rest.replace(at, part.size(), " ");
  };
  std::vector<std::string> parts;
  for (const Name& name : sentence.names())
    parts.push_back(name.text);
  for (const Evidence& evidence : sentence.evidence())
    parts.push_back(evidence.printed);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (const std::string& part : parts)
    remove(part);
  return rest;
}

}  // namespace

std::vector<std::string> faults_of(const Finding& sentence, const Json& results) {
  std::vector<std::string> faults;
  for (const Evidence& evidence : sentence.evidence())
    check(evidence, results, faults);
  for (const Name& name : sentence.names())
    check(name, results, faults);
  const std::string rest = rest_of(sentence);
  if (std::any_of(rest.begin(), rest.end(), [](unsigned char c) { return std::isdigit(c); }))
    faults.push_back("a number without evidence in: " + rest);
  return faults;
}

}  // namespace triplepoint::report
