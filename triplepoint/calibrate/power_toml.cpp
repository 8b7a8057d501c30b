// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/table_writer.h"

#include "triplepoint/calibrate/power_fit.h"

namespace triplepoint::calibrate {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

/// Classes of work that a fit tells as one.
constexpr std::array<std::string_view, 6> vector_classes = {
    "norm", "elementwise", "router", "embedding", "loss", "optimizer"};

/// `name = old` inside of an inline table becomes `name = text`.
void set_in_line(std::string& line, std::string_view name, const std::string& text) {
  const std::string key = fmt::format("{} = ", name);
  for (size_t at = line.find(key); at != std::string::npos; at = line.find(key, at + 1)) {
    if (at > 0 && line[at - 1] != ' ' && line[at - 1] != '{') continue;
    const size_t from = at + key.size();
    line.replace(from, line.find_first_of(",} ", from) - from, text);
    return;
  }
}

void set_number(Lines& lines, const std::string& key, const std::string& text) {
  const std::string path = key.substr(key.find('.') + 1);
  const size_t dot = path.find('.');
  const std::string first = path.substr(0, dot) + " = ";
  const auto line = std::find_if(lines.begin(), lines.end(),
                                 [&](const std::string& l) { return l.starts_with(first); });
  if (line == lines.end()) return;
  if (dot == std::string::npos)
    *line = first + text;
  else if (path.substr(dot + 1) == "vector")
    for (const std::string_view name : vector_classes)
      set_in_line(*line, name, text);
  else
    set_in_line(*line, path.substr(dot + 1), text);
}

/// Keys as sources name them.
Lines source_keys(const CoefficientFit& fit) {
  Lines keys;
  for (const FoundNumber& number : fit.numbers) {
    if (!number.key.starts_with(fit.block + ".")) continue;  // belongs into another file
    const size_t vector = number.key.find(".vector");
    if (vector == std::string::npos)
      keys.push_back(number.key);
    else
      for (const std::string_view name : vector_classes)
        keys.push_back(fmt::format("{}.{}", number.key.substr(0, vector), name));
  }
  return keys;
}

/// Takes keys out of the lists of a `keys = [...]` line; true if none is left.
bool drop_keys(std::string& line, const Lines& keys) {
  for (const std::string& key : keys) {
    const std::string quoted = fmt::format("\"{}\"", key);
    const size_t at = line.find(quoted);
    if (at == std::string::npos) continue;
    size_t end = at + quoted.size(), from = at;
    if (line.compare(end, 2, ", ") == 0)
      end += 2;
    else if (from >= 2 && line.compare(from - 2, 2, ", ") == 0)
      from -= 2;
    line.erase(from, end - from);
  }
  return line == "keys = []";
}

std::string numbers_text(const FitErrors& errors, const std::string& unit) {
  return fmt::format("median {:.2f}, p90 {:.2f} {}", errors.median, errors.p90, unit);
}

std::string source_text(const CoefficientFit& fit, const std::string& table) {
  std::string keys, bounds;
  for (const std::string& key : source_keys(fit))
    keys += fmt::format("{}\"{}\"", keys.empty() ? "" : ", ", key);
  for (const FoundNumber& number : fit.numbers)
    if (number.bound) bounds += "; on its bound: " + number.key;
  return fmt::format(
      "[[source]]\nkeys = [{}]\nkind = \"fitted\"\ncite = \"{}, triplepoint calibrate {}: {} rows, "
      "{}; held out {}{}\"\n",
      keys, table, fit.block, fit.after.rows, numbers_text(fit.after, fit.unit),
      numbers_text(fit.held_out, fit.unit), bounds);
}

std::string record_text(const CoefficientFit& fit) {
  const auto line = [](const char* key, const FitErrors& e) {
    return fmt::format("{} = {{ rows = {}, median = {:.3f}, p90 = {:.3f}, rms = {:.3f} }}\n", key,
                       e.rows, e.median, e.p90, e.rms);
  };
  return fmt::format("\n[fit.{}]\nunit = \"{}\"\n", fit.block, fit.unit) +
         line("after", fit.after) + line("held_out", fit.held_out);
}

/// The sources without the found keys, the record of former fits cut off.
std::string kept_sources(const Lines& lines, size_t begin, const Lines& keys) {
  std::string text;
  for (size_t i = begin; i < lines.size() && !lines[i].starts_with("[fit"); ++i) {
    if (lines[i] != "[[source]]") continue;
    std::string block = "\n[[source]]\n";
    bool empty = false;
    for (++i; i < lines.size() && !lines[i].empty(); ++i) {
      std::string line = lines[i];
      if (line.starts_with("keys = ")) empty = drop_keys(line, keys);
      block += line + "\n";
    }
    if (!empty) text += block;
  }
  return text;
}

}  // namespace

Result<std::string> fitted_toml(const CoefficientFit& fit, const spec::Library& library,
                                const std::string& table) {
  const std::string path =
      fmt::format("{}/calibrations/{}/{}.toml", library.root, fit.gpu, fit.block);
  Lines lines = lines_of(TPT_TRY(read_file(path)));
  for (const FoundNumber& number : fit.numbers)
    set_number(lines, number.key, number.text);
  const auto sources = std::find(lines.begin(), lines.end(), "[[source]]");
  std::string text;
  for (auto line = lines.begin(); line != sources; ++line)
    text += *line + "\n";
  text += source_text(fit, table);
  text += kept_sources(lines, static_cast<size_t>(sources - lines.begin()), source_keys(fit));
  return text + record_text(fit);
}

}  // namespace triplepoint::calibrate
