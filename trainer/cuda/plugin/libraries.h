// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "trainer/cuda/api/driver.h"

namespace triplepoint::trainer::cuda {

/// What a library of the vendor's did not do. Ends the rank, as a lost peer does.
class CudaError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The vendor's libraries, opened by name.
struct Libraries {
  Driver driver;
  BlasLibrary blas;
  NcclLibrary nccl;

  void check(int result, const char* what) const;       // of the driver
  void check_blas(int status, const char* what) const;  // of cuBLASLt
  void check_nccl(int result, const char* what) const;
};

/// `folder`: of all of them; empty: as the system finds them. NCCL only where it is wanted. Throws
/// CudaError with a sentence.
Libraries open_libraries(const std::string& folder, bool nccl);

}  // namespace triplepoint::trainer::cuda
