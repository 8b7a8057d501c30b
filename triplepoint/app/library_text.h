// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/formats/import.h"

namespace triplepoint::app {

/// One thing of the library, and every number of its file.
answers::Document library_document(const std::string& kind, const std::string& name,
                                   const std::string& about,
                                   const std::vector<spec::Provenance>& numbers);
/// A study with its jobs.
answers::Document plan_document(const spec::StudyPlan&);

/// Numbers of a file of the library ("gpus/h200") or elsewhere; of a GPU with those of its
/// calibrations (kernels, power, thermal, governor, variability), of a cluster with its GPU's.
Result<std::vector<spec::Provenance>> numbers_of(const spec::Library&, const std::string& file);

/// Size, work and memory of a model: "8.03 B parameters, 32 layers, sequence 8192; 49.9 GFLOP a
/// token; 145 GB of weights, gradients and optimizer states (distributed_fused_adam)". The flops
/// are those of MFU, forward and backward; memory is before sharding, without activations.
std::string model_text(const spec::Job&);
/// The same trained with the default stack's optimizer.
Result<std::string> model_text(const spec::Library&, const spec::Model&);

/// "model my-llama: " and the same of a job whose model the library does not have (or of
/// "llama3-8b, changed"); else empty. A job's length of sequences does not make
/// another model.
std::string own_model_text(const spec::Library&, const spec::Job&);

/// What the job asks for in vain or against itself.
std::vector<std::string> warnings_of(const spec::Job&);

/// What a folder of launch files holds: a row a file, with what is wrong and what was assumed.
answers::Document import_document(const formats::FolderImport&);

}  // namespace triplepoint::app
