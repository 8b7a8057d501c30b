// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <map>
#include <thread>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "triplepoint/mark/mark_testing.h"

namespace triplepoint::mark {
namespace {

void mark_one_step() {
  triplepoint_step_begin(7);
  {
    const Region forward("forward");
    triplepoint_span("all_reduce", "tp", 4096, -1, 1000, 2500);
  }
  triplepoint_value("tokens", 512.5);
  triplepoint_step_end(7);
}

TEST_CASE("what a program says arrives whole and in its order") {
  const MarkFolder folder;
  REQUIRE(run_child(folder, mark_one_step) == 0);
  Reader reader = *Reader::watch(folder.folder());
  const std::vector<Event> events = all_events(reader);
  REQUIRE(events.size() == 6);
  const EventKind kinds[] = {EventKind::step_begin, EventKind::region_begin, EventKind::span,
                             EventKind::region_end, EventKind::value,        EventKind::step_end};
  for (int i = 0; i < 6; ++i)
    CHECK(events[i].kind == kinds[i]);
  CHECK(events[0].number == 7);
  CHECK(events[1].name == "forward");
  CHECK(events[2].name == "all_reduce");
  CHECK(events[2].group == "tp");
  CHECK(events[2].bytes == 4096);
  CHECK(events[2].flops == -1);
  CHECK(events[2].end_ns - events[2].begin_ns == 1500);
  CHECK(events[4].name == "tokens");
  CHECK(events[4].value == 512.5);
  CHECK((events[5].value >= 0) == (access("/proc/thread-self/schedstat", R_OK) == 0));
  CHECK(events[0].begin_ns <= events[5].begin_ns);
  CHECK(events[0].thread ==
        reader.processes().at(0).pid);  // the first thread's id is the process's
  CHECK(reader.lost() == 0);
  CHECK(all_events(reader).empty());
}

TEST_CASE("without a recorder a program marks nothing and leaves nothing") {
  const MarkFolder folder;
  CHECK(run_child(folder, [] {
          unsetenv("TRIPLEPOINT_MARKS");
          mark_one_step();
          if (triplepoint_marking()) _exit(1);
        }) == 0);
  CHECK(folder.files().empty());
}

TEST_CASE("a recorder whose library or folder is missing harms no program") {
  const MarkFolder folder;
  CHECK(run_child(folder, [] {
          setenv("TRIPLEPOINT_MARK_LIBRARY", "/no/such/library.so", 1);
          mark_one_step();
          if (triplepoint_marking()) _exit(1);
        }) == 0);
  CHECK(run_child(folder, [] {
          setenv("TRIPLEPOINT_MARKS", "/no/such/folder", 1);
          mark_one_step();
          if (triplepoint_marking()) _exit(1);
        }) == 0);
  CHECK(run_child(folder, [] {  // no room: noticed when the file is made, not as a signal later
          const rlimit small{.rlim_cur = 10000, .rlim_max = 10000};
          setrlimit(RLIMIT_FSIZE, &small);
          mark_one_step();
          if (triplepoint_marking()) _exit(1);
        }) == 0);
  CHECK(folder.files().empty());
}

TEST_CASE("the rank is what the innermost launcher says") {
  const MarkFolder folder;
  using Environment = std::map<std::string, std::string>;
  const auto process_with = [&](const Environment& environment) {
    run_child(folder, [&] {
      for (const auto& [name, value] : environment)
        setenv(name.c_str(), value.c_str(), 1);
      triplepoint_value("here", 1);
    });
    Reader reader = *Reader::watch(folder.folder());
    all_events(reader);
    const Process process = reader.processes().at(0);
    std::filesystem::remove(folder.only_file());
    return process;
  };
  const Environment slurm = {
      {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_ID", "0"}};
  Environment torchrun = slurm;
  torchrun.insert({{"RANK", "12"}, {"LOCAL_RANK", "4"}, {"WORLD_SIZE", "16"}});
  CHECK(process_with(slurm).rank == 3);
  CHECK(process_with(slurm).local_rank == 1);
  CHECK(process_with(slurm).world_size == 8);
  CHECK(process_with(torchrun).rank == 12);
  CHECK(process_with(torchrun).local_rank == 4);
  CHECK(process_with({{"OMPI_COMM_WORLD_RANK", "5"}}).rank == 5);
  CHECK_FALSE(process_with({{"OMPI_COMM_WORLD_RANK", "5"}}).world_size);
  CHECK(process_with({{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}}).world_size == 7);
  CHECK_FALSE(process_with({{"RANK", "first"}, {"LOCAL_RANK", "0"}}).rank);
  CHECK_FALSE(process_with({{"RANK", "3"}}).rank);          // of something else
  CHECK_FALSE(process_with({{"SLURM_PROCID", "0"}}).rank);  // of a batch script
  CHECK(process_with({{"CUDA_VISIBLE_DEVICES", "2,3"}}).visible_devices == "2,3");
  CHECK(process_with({{"HIP_VISIBLE_DEVICES", "1"}}).visible_devices == "1");
}

TEST_CASE("threads that mark at once lose nothing and keep their order") {
  const MarkFolder folder;
  const int threads = 4, marks = 3000;
  REQUIRE(run_child(folder, [] {
            std::vector<std::thread> team;
            for (int t = 0; t < threads; ++t) {
              team.emplace_back([t] {
                const std::string name = "thread " + std::to_string(t);
                for (int i = 0; i < marks; ++i)
                  triplepoint_value(name.c_str(), i);
              });
            }
            for (std::thread& thread : team)
              thread.join();
          }) == 0);
  Reader reader = *Reader::watch(folder.folder());
  std::map<std::string_view, double> next;
  std::map<std::string_view, int32_t> thread_of;
  bool in_order = true, one_thread_each = true;
  for (const Event& event : all_events(reader)) {
    in_order = in_order && event.value == next[event.name]++;
    one_thread_each = one_thread_each &&
                      thread_of.try_emplace(event.name, event.thread).first->second == event.thread;
  }
  CHECK(in_order);
  CHECK(one_thread_each);
  CHECK(reader.lost() == 0);
  REQUIRE(next.size() == threads);
  for (const auto& [name, count] : next)
    CHECK(count == marks);
}

TEST_CASE("a ring without a reader keeps the newest entries and counts the lost ones") {
  const MarkFolder folder;
  const int marks = 3 * triplepoint_wire_entry_count + 5;
  REQUIRE(run_child(folder, [] {
            for (int i = 0; i < marks; ++i)
              triplepoint_value("i", i);
          }) == 0);
  Reader reader = *Reader::watch(folder.folder());
  const std::vector<Event> events = all_events(reader);
  CHECK(reader.lost() == marks - triplepoint_wire_entry_count);
  REQUIRE(events.size() == triplepoint_wire_entry_count);
  CHECK(events.back().value == marks - 1);
}

TEST_CASE("a recorder that asks for a larger ring loses less") {
  const MarkFolder folder;
  const int marks = 3 * triplepoint_wire_entry_count + 5;
  for (const char* wanted : {"65536", "65535", "many"}) {
    REQUIRE(run_child(folder, [wanted] {
              setenv(triplepoint_wire_entries_variable, wanted, 1);
              for (int i = 0; i < marks; ++i)
                triplepoint_value("i", i);
            }) == 0);
  }
  Reader reader = *Reader::watch(folder.folder());
  // What is no power of two is not heeded.
  CHECK(all_events(reader).size() == marks + 2 * triplepoint_wire_entry_count);
  CHECK(reader.lost() == 2 * (marks - triplepoint_wire_entry_count));
}

TEST_CASE("what is read while it is written is right, and all is accounted for") {
  const MarkFolder folder;
  const int64_t marks = 200000;
  const pid_t child = start_child(folder, [] {
    for (int64_t i = 0; i < marks; ++i)
      triplepoint_span(i % 2 ? "odd" : "even", "dp", double(i), double(2 * i), i + 1, 3 * i + 1);
  });
  Reader reader = *Reader::watch(folder.folder());
  int64_t found = 0;
  bool all_right = true;
  const auto look = [&](const Event& event) {
    ++found;
    const int64_t i = event.begin_ns - 1;
    all_right = all_right && event.bytes == double(i) && event.flops == double(2 * i) &&
                event.end_ns == 3 * i + 1 && event.name == (i % 2 ? "odd" : "even");
  };
  while (waitpid(child, nullptr, WNOHANG) == 0)
    reader.drain(look);
  reader.drain(look);
  CHECK(all_right);
  CHECK(found > 0);
  CHECK(found + reader.lost() == marks);
}

TEST_CASE("a program killed while it marks loses at most the mark it was at") {
  const MarkFolder folder;
  auto* said = static_cast<std::atomic<int64_t>*>(mmap(nullptr, sizeof(std::atomic<int64_t>),
                                                       PROT_READ | PROT_WRITE,
                                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = start_child(folder, [&] {
    for (;;) {
      triplepoint_value("said", double(said->load()));
      said->fetch_add(1);
      if (said->load() % 1000 == 0) usleep(1000);  // the ring holds more than is said in a drain
    }
  });
  while (said->load() < 5000)
    usleep(100);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  Reader reader = *Reader::watch(folder.folder());
  const auto events = static_cast<int64_t>(all_events(reader).size());
  CHECK(events + reader.lost() >= said->load());
  CHECK(events + reader.lost() <= said->load() + 1);
  munmap(said, sizeof *said);
}

TEST_CASE("a child of a program that marks has its own marks") {
  const MarkFolder folder;
  const auto fork_and_mark = [](auto make_child) {
    triplepoint_value("parent", 1);
    const auto child = static_cast<pid_t>(make_child());
    triplepoint_value(child == 0 ? "child" : "parent", 2);
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    triplepoint_value("parent", 3);
  };
  SUBCASE("by fork") {
    REQUIRE(run_child(folder, [&] { fork_and_mark([] { return fork(); }); }) == 0);
  }
  SUBCASE("by a bare clone, which runs no handlers") {
    REQUIRE(run_child(folder, [&] {
              fork_and_mark([] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); });
            }) == 0);
  }
  Reader reader = *Reader::watch(folder.folder());
  std::map<int32_t, std::vector<std::string_view>> names;
  for (const Event& event : all_events(reader))
    names[event.process].push_back(event.name);
  REQUIRE(reader.processes().size() == 2);
  CHECK(reader.processes()[0].pid != reader.processes()[1].pid);
  const int parent = names[0].size() == 3 ? 0 : 1;
  CHECK(names[parent] == std::vector<std::string_view>(3, "parent"));
  CHECK(names[1 - parent] == std::vector<std::string_view>{"child"});
}

TEST_CASE("more names than there is room for leave marks without a name, and harm nothing else") {
  const MarkFolder folder;
  const int names = 2 * triplepoint_wire_name_count;
  REQUIRE(run_child(folder, [] {
            for (int i = 0; i < names; ++i)
              triplepoint_value(("name " + std::to_string(i)).c_str(), i);
            triplepoint_value(std::string(500, 'x').c_str(), names);
          }) == 0);
  Reader reader = *Reader::watch(folder.folder());
  const std::vector<Event> events = all_events(reader);
  REQUIRE(events.size() == names + 1);
  bool own_or_none = true;
  int64_t named = 0;
  for (int i = 0; i < names; ++i) {
    own_or_none =
        own_or_none && (events[i].name.empty() || events[i].name == "name " + std::to_string(i));
    named += !events[i].name.empty();
  }
  CHECK(own_or_none);
  CHECK(named > triplepoint_wire_name_count / 2);
}

}  // namespace
}  // namespace triplepoint::mark
