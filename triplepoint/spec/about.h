// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/spec/load.h"

namespace triplepoint::spec {

/// One line that says what a thing is: "174.6 B parameters, 96 layers, sequence 2048".
std::string about_model(const spec::Model& model);
std::string about_gpu(const spec::Gpu& gpu);
std::string about_cluster(const spec::Cluster& cluster);
std::string about_stack(const spec::Stack& stack);
std::string about_optimizer(const spec::OptimizerState& optimizer);
std::string about_study(const spec::StudyPlan& study);

}  // namespace triplepoint::spec
