// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/session.h"

#include "triplepoint/sim/passage.h"

namespace triplepoint::sim {

struct Session::State {
  Passage passage;
};

Session::Session(const spec::Job& job) : state_(std::make_unique<State>(State{Passage(job)})) {}
Session::Session(const Session& other) : state_(std::make_unique<State>(*other.state_)) {}
Session& Session::operator=(const Session& other) {
  if (this != &other) state_ = std::make_unique<State>(*other.state_);
  return *this;
}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const spec::Job& Session::job() const {
  return state_->passage.job();
}
Seconds Session::now() const {
  return state_->passage.now();
}
void Session::settle() {
  state_->passage.settle();
}
run::Run Session::play(Seconds duration) {
  return state_->passage.play({.duration = duration, .steps = {}, .timeline = false});
}
void Session::pause(Seconds duration) {
  state_->passage.pause(duration);
}
void Session::change(const spec::Job& job) {
  state_->passage.change(job);
}

}  // namespace triplepoint::sim
