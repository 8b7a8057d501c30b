// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "trainer/cuda/api/driver.h"
#include "trainer/cuda/device.h"

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
  int driver_version = 0;  // 1000 major + 10 minor of the newest CUDA that it serves
  std::string blas_file;

  void check(int result, const char* what) const;       // of the driver
  void check_blas(int status, const char* what) const;  // of cuBLASLt
  void check_nccl(int result, const char* what) const;
};

/// Opens the driver, a cuBLASLt that this driver serves and, where ranks exchange arrays, NCCL, in
/// the folders of the settings. Throws CudaError with a sentence.
Libraries open_libraries(const DeviceSettings&);

/// "12.4" of 12040.
std::string release_of(int version);

}  // namespace triplepoint::trainer::cuda
