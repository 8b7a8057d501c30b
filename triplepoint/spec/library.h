// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/spec/load.h"

namespace triplepoint::spec {

/// The default library, or why there is none.
Result<Library> require_library();

/// One line that says what a thing is: "174.6 B parameters, 96 layers, sequence 2048".
std::string about_model(const spec::Model& model);
std::string about_gpu(const spec::Gpu& gpu);
std::string about_cluster(const spec::Cluster& cluster);
std::string about_stack(const spec::Stack& stack);
std::string about_optimizer(const spec::OptimizerState& optimizer);
std::string about_records(const spec::Records& records);
std::string about_study(const spec::StudyPlan& study);

/// The library's GPU for the name that a driver gives it ("NVIDIA H100 80GB HBM3"), or nothing.
std::optional<std::string> gpu_named(std::string_view spelling);

/// The library's cluster whose nodes usually hold this GPU, or nothing.
std::optional<std::string> usual_cluster(std::string_view gpu);

}  // namespace triplepoint::spec
