// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "triplepoint/base/expect.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/import.h"

/// A command line either says what is wrong with it or becomes a job; a job can be written out, and
/// what is written can be read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  static const spec::Library library = spec::default_library();
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto imported = formats::import_megatron_args(library, text, "fuzz-h100.sh", {});
  if (!imported) return 0;
  const formats::Exported exported = formats::export_megatron_args(imported->job);
  TPT_ENSURE(formats::import_megatron_args(library, exported.text, "again.sh", {}).has_value());
  (void)formats::export_nemo_yaml(imported->job);
  return 0;
}
