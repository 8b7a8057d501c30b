// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_reader.h"
#include "triplepoint/spec/table_writer.h"

namespace triplepoint::spec {
namespace {

/// Claims alone, as the root of a file.
struct ClaimFile {
  std::vector<Claim> claim;
};
template <class Visitor>
void visit_fields(Visitor& visit, ClaimFile& file) {
  visit("claim", file.claim);
}

}  // namespace

std::string write_claims(const std::vector<Claim>& claims) {
  ClaimFile file{claims};
  TableWriter writer;
  visit_fields(writer, file);
  return writer.text();
}

Result<std::vector<Claim>> parse_claims(const Library& library, std::string_view text,
                                        const std::string& file) {
  ReadScope scope;
  scope.library = &library;
  scope.file = file;
  ClaimFile read;
  TPT_TRY(read_table(scope, TPT_TRY(parse_toml(text, file)), read));
  return std::move(read.claim);
}

}  // namespace triplepoint::spec
