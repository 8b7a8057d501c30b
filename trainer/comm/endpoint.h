// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "triplepoint/spec/op.h"

#include "trainer/comm/communicator.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

struct EndpointSettings {
  double timeout_seconds = 300;  // how long a peer may stay silent
  /// A thread that keeps numbers moving while this rank computes; worth it only where something
  /// overlaps.
  bool progress_thread = false;
};

/// One rank's end of all its groups: owns the transport and keeps everything that has been started
/// moving, whichever of it is waited for.
///
/// A communicator is known by its kind and `instance`: a rank may have several groups of a kind (or
/// one group twice), all members give it the same instance. Communicators must not outlive their
/// endpoint.
class Endpoint {
 public:
  static constexpr int most_instances = 8;

  explicit Endpoint(std::unique_ptr<Transport>, EndpointSettings = {});
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  /// `ranks` of the job, this one among them; all members call it, in one order of groups.
  std::unique_ptr<Communicator> communicator(spec::GroupKind, std::vector<int> ranks,
                                             int instance = 0);
  /// Lets go of all that has been started; aborts the ranks of this process with this message.
  void abort(const char* why);

 private:
  friend class Communicator;
  friend class Pending;

  template <class Begin>
  void start(const std::shared_ptr<Pending::State>&, const Begin&);
  void forget(const Communicator&);
  bool done(Pending::State&);
  void wait(Pending::State&);
  bool look();      // takes the lock
  bool progress();  // with the lock
  void finish(Pending::State&);
  void check_silence(Pending::State&, int64_t since_ns);
  void run_in_background();

  std::unique_ptr<Transport> transport_;
  EndpointSettings settings_;
  // One lock around everything: the rank's own thread and the progress thread take turns.
  std::mutex mutex_;
  std::vector<std::shared_ptr<Pending::State>> under_way_;
  std::string failure_;
  std::condition_variable started_;
  bool stop_ = false;
  std::thread background_;
};

/// What has been started and is not over.
struct Pending::State {
  State(Endpoint& its_endpoint, Communicator& its_group, spec::Collective its_collective,
        double its_payload)
      : endpoint(its_endpoint),
        group(its_group),
        collective(its_collective),
        payload(its_payload) {}

  Endpoint& endpoint;
  Communicator& group;
  spec::Collective collective;
  double payload;  // bytes; -1: said by the other side
  bool counted = true;
  std::unique_ptr<Transfer> transfer;
  int64_t begin_ns = 0;
  std::atomic<bool> over{false};
};

template <class Begin>
void Endpoint::start(const std::shared_ptr<Pending::State>& state, const Begin& begin) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CommError(failure_);
    begin();
    under_way_.push_back(state);
    progress();
  }
  if (settings_.progress_thread) started_.notify_one();
}

}  // namespace triplepoint::trainer
