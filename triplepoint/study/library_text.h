// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// One thing, and every number of its file.
struct LibraryEntry {
  std::string kind, about;
  std::vector<spec::Provenance> numbers;
};

Json shown_json(const LibraryEntry&);
void print_shown(tui::Console&, const std::string& name, const LibraryEntry&);

/// Size, work and memory of a model: "8.03 B parameters, 32 layers, sequence 8192; 49.9 GFLOP a
/// token; 145 GB of weights, gradients and optimizer states (distributed_fused_adam)". The flops
/// are those of MFU, forward and backward; memory is before sharding, without activations.
std::string model_text(const spec::Job&);
/// The same trained with the default stack's optimizer.
Result<std::string> model_text(const spec::Library&, const spec::Model&);

/// "model my-llama: " and the same of a job whose model the library does not have (or of
/// "llama3-8b, changed"); else empty. A job's length of sequences does not make another model.
std::string own_model_text(const spec::Library&, const spec::Job&);

/// What the job asks for in vain or against itself, on standard error.
void print_warnings(tui::Console&, const spec::Job&);

/// A study with its jobs.
Json study_json(const spec::StudyPlan&);
void print_study(tui::Console&, const spec::StudyPlan&);

}  // namespace triplepoint::study
