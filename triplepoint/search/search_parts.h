// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/search/finalists.h"

namespace triplepoint::search {

/// One part of a search: the layouts whose group number leaves `index` when divided by `count`.
struct Shard {
  size_t index = 0, count = 1;
};
/// "3/16": from 0 on, as Slurm numbers the tasks of an array.
Result<Shard> parse_shard(std::string_view text);

/// What one shard found, as a file that another process merges.
struct SearchPart {
  Shard shard;
  std::string question;          // a digest of all that decides the answer
  search::Found found, thrifty;  // for the goal; for energy, where the front was asked for
};

/// Everything that decides what a search finds: parts of different questions are not merged.
std::string digest_of_question(const search::Space& space, const search::Objective& objective,
                               const search::Limits& limits, const std::string& choices);

std::string part_name(const Shard& shard);
std::string write_part(const SearchPart& part);
/// name: of the file, for what is wrong with it.
Result<SearchPart> parse_part(const search::Space& space, std::string_view text,
                              const std::string& name);

/// All parts of a folder; an error where one is missing, twice there, or of another question.
Result<std::vector<SearchPart>> read_parts(const search::Space& space, const Path& folder,
                                           const std::string& question);

}  // namespace triplepoint::search
