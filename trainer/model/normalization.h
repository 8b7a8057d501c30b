// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/model/context.h"

namespace triplepoint::trainer {

/// LayerNorm or RMSNorm of the trunk, with its parameters.
class Normalization {
 public:
  Normalization(ModelContext&, const char* op_name, const std::string& name,
                std::vector<Parameter>& parameters);

  void forward(const float* x, float* y, float* statistics) const;
  /// Adds to dx.
  void backward(const float* x, const float* statistics, const float* dy, float* dx) const;

 private:
  ModelContext& context_;
  const char* op_name_;
  ParameterRef gain_, bias_;
};

}  // namespace triplepoint::trainer
