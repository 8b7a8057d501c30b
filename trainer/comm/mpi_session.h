// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triplepoint/base/result.h"

#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

/// An MPI that has been initialized, from here to the end of this object. One per process.
class MpiSession {
 public:
  /// Nothing where the program was built without MPI.
  static Result<std::unique_ptr<MpiSession>> open();
  /// Whether mpirun or srun started this process; then open() can succeed.
  static bool launched();

  virtual ~MpiSession() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// All ranks call it, once.
  virtual std::unique_ptr<Transport> transport() = 0;
  /// Ends all ranks, this one included, with this exit code.
  [[noreturn]] virtual void end_all(int code) = 0;
};

}  // namespace triplepoint::trainer
