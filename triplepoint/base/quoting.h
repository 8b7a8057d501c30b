// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace triplepoint {

// Text as one value of a language, so that nothing in it is read as more than a text. HTML has
// report::escape, JSON json_text, CSV CsvWriter.

/// One word of a POSIX shell, in single quotes where the shell would take it apart.
std::string shell_word(std::string_view text);

/// What may stand behind # in a script or configuration: line breaks and other control characters
/// become blanks, so that the comment does not end early.
std::string comment_text(std::string_view text);

/// A path behind --output= of an #SBATCH line, where % begins a pattern.
std::string sbatch_path(std::string_view path);

/// A TOML basic string.
std::string toml_text(std::string_view text);

/// A YAML scalar that is read as a text: plain words as they are, others in double quotes.
std::string yaml_text(std::string_view text);

/// Whether a spreadsheet would take a CSV cell for a formula: =1+1, @SUM(A1), -1+1, but not -1.5.
bool is_formula(std::string_view cell);

}  // namespace triplepoint
