// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/suggest.h"

#include "triplepoint/spec/library.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

#include "triplepoint/metrics/trace_tables/input.h"

namespace triplepoint::metrics {
namespace {

using spec::TomlValue;

tl::unexpected<Error> wrong(const std::string& file, int line, const std::string& what) {
  return error(fmt::format("{}:{}: {}", file, line, what));
}

Result<std::vector<std::string>> words_of(const TomlValue& value, const std::string& file) {
  std::vector<std::string> words;
  for (const TomlValue& item : value.items) {
    if (!item.is(TomlValue::Kind::text) || item.text.empty())
      return wrong(file, value.line,
                   "a part of a name must be text that is not empty; write \"nccl\"");
    std::string word = item.text;
    std::transform(word.begin(), word.end(), word.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    words.push_back(std::move(word));
  }
  return words;
}

Result<metrics::KernelLabel> label_in(const TomlValue& value, const std::string& file) {
  const auto label = metrics::kernel_label(value.text);
  if (!label)
    return wrong(file, value.line,
                 fmt::format("no kernel class is called \"{}\"; {}", value.text,
                             did_you_mean(value.text, metrics::kernel_label_words())));
  return *label;
}

Result<std::regex> regex_in(const TomlValue& value, const std::string& file) {
  try {
    return std::regex(value.text, std::regex::icase | std::regex::optimize);
  } catch (const std::regex_error&) {
    return wrong(file, value.line,
                 fmt::format("\"{}\" is no regular expression (ECMAScript); backslashes need "
                             "single quotes around the text",
                             value.text));
  }
}

Result<metrics::KernelRule> rule_in(const TomlValue& table, const std::string& file) {
  metrics::KernelRule rule;
  bool has_class = false;
  for (const spec::TomlEntry& entry : table.entries) {
    if (entry.key == "class") {
      rule.label = TPT_TRY(label_in(entry.value, file));
      has_class = true;
    } else if (entry.key == "all") {
      rule.all = TPT_TRY(words_of(entry.value, file));
    } else if (entry.key == "any") {
      rule.any = TPT_TRY(words_of(entry.value, file));
    } else if (entry.key == "regex") {
      rule.pattern = TPT_TRY(regex_in(entry.value, file));
    } else {
      return wrong(file, entry.value.line,
                   fmt::format("unknown key \"{}\"; a rule has class, all, any, regex", entry.key));
    }
  }
  if (!has_class) return wrong(file, table.line, "a rule without a class; add class = \"compute\"");
  return rule;
}

Result<metrics::KernelRuleSet> parse_rules(const std::string& text, const std::string& file) {
  const TomlValue root = TPT_TRY(spec::parse_toml(text, file));
  metrics::KernelRuleSet set{.name = std::filesystem::path(file).stem().string()};
  for (const spec::TomlEntry& entry : root.entries) {
    if (entry.key == "rule") {
      for (const TomlValue& table : entry.value.items)
        set.rules.push_back(TPT_TRY(rule_in(table, file)));
    } else if (entry.key == "otherwise") {
      set.otherwise = TPT_TRY(label_in(entry.value, file));
    } else if (entry.key != "about") {
      return wrong(file, entry.value.line,
                   fmt::format("unknown key \"{}\"; a rule file has about, otherwise and [[rule]]",
                               entry.key));
    }
  }
  if (set.rules.empty() && !set.otherwise)
    return error(
        fmt::format("{}: no rules in it; add [[rule]] with class and all, any or regex", file));
  return set;
}

}  // namespace

Result<metrics::KernelRuleSet> load_kernel_rules(const std::string& name_or_file) {
  std::error_code ignored;
  Path path = name_or_file;
  if (!std::filesystem::exists(path, ignored)) {
    const spec::Library library = TPT_TRY(spec::require_library());
    path = Path(library.root) / "rules" / (name_or_file + ".toml");
    if (!std::filesystem::exists(path, ignored))
      return error(
          fmt::format("no kernel rules \"{}\" (neither a file nor one of data/rules); try default, "
                      "upstream, or a file",
                      name_or_file));
  }
  return parse_rules(TPT_TRY(read_file(path)), path.string());
}

}  // namespace triplepoint::metrics
