// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/files.h"

#include <cstdlib>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/scratch_folder.h"

namespace triplepoint {
namespace {

TEST_CASE("the environment says first where the data are, and is held to it") {
  const char* before = std::getenv("TRIPLEPOINT_DATA");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TRIPLEPOINT_DATA", TPT_SOURCE_DIR, 1);
  CHECK(data_folder() == Path(TPT_SOURCE_DIR));
  ::setenv("TRIPLEPOINT_DATA", "/nowhere at all", 1);
  CHECK(data_folder().error().what.starts_with(
      "TRIPLEPOINT_DATA names /nowhere at all, which is not a folder"));
  if (before == nullptr)
    ::unsetenv("TRIPLEPOINT_DATA");
  else
    ::setenv("TRIPLEPOINT_DATA", kept.c_str(), 1);
}

TEST_CASE("what was written is read back, byte for byte, also nothing and more than one block") {
  const ScratchFolder folder;
  for (const std::string& content :
       {std::string(), std::string("a\0b\r\n", 5), std::string(200000, 'x')}) {
    REQUIRE(write_file_atomically(folder / "file", content));
    CHECK(read_file(folder / "file") == content);
  }
}

TEST_CASE("writing leaves nothing but the file") {
  const ScratchFolder folder;
  REQUIRE(write_file_atomically(folder / "file", "text"));
  CHECK(list_files(folder.folder(), "").value() == std::vector<Path>{folder / "file"});
}

TEST_CASE("a file is replaced under its old permissions, through a link") {
  const ScratchFolder folder;
  REQUIRE(write_file_atomically(folder / "file", "old"));
  std::filesystem::permissions(folder / "file", std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("file", folder / "link");
  REQUIRE(write_file_atomically(folder / "link", "new"));
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(read_file(folder / "file") == "new");
  CHECK(std::filesystem::status(folder / "file").permissions() ==
        std::filesystem::perms::owner_all);
}

TEST_CASE("a missing file, a folder and a missing folder are errors that name path and reason") {
  const ScratchFolder folder;
  CHECK(read_file(folder / "none").error().what ==
        fmt::format("cannot read {} (No such file or directory); check the path",
                    (folder / "none").string()));
  CHECK(read_file(folder.folder()).error().what.find("Is a directory") != std::string::npos);
  CHECK_FALSE(write_file_atomically(folder / "none/file", "text"));
  CHECK_FALSE(list_files(folder / "none", ""));
}

TEST_CASE("a subfolder that may not be listed is the one that is named") {
  if (::geteuid() == 0) {
    MESSAGE("skipped: root may list everything");
    return;
  }
  const ScratchFolder scratch;
  const Path secret = scratch.path("a/secret");
  REQUIRE(make_folder(secret));
  ::chmod(secret.c_str(), 0);
  const auto listed = list_files(scratch.folder(), "");
  ::chmod(secret.c_str(), 0700);
  REQUIRE(!listed);
  CHECK(listed.error().what.starts_with("cannot list " + secret.string() + " ("));
}

TEST_CASE("a full disk is an error with a way out") {
  if (!std::filesystem::exists("/dev/full")) {
    MESSAGE("skipped: no /dev/full on this system");
    return;
  }
  const ScratchFolder folder;
  // The temporary file goes through a link onto the device that is always full.
  const std::string temporary = fmt::format("file.{}.tmp", ::getpid());
  std::filesystem::create_symlink("/dev/full", folder / temporary.c_str());
  CHECK(write_file_atomically(folder / "file", "text").error().what ==
        fmt::format(
            "cannot write {} (No space left on device); free some space or write to another folder",
            (folder / "file").string()));
  CHECK_FALSE(std::filesystem::exists(folder / "file"));
}

TEST_CASE("what may not be read says who may, and nothing of writing") {
  if (::geteuid() == 0) {
    MESSAGE("skipped: root may read everything");
    return;
  }
  const ScratchFolder folder;
  REQUIRE(write_file_atomically(folder / "file", "text"));
  std::filesystem::permissions(folder / "file", std::filesystem::perms::none);
  CHECK(read_file(folder / "file").error().what ==
        fmt::format("cannot read {} (Permission denied); change its permissions, or run as a user "
                    "who may read it",
                    (folder / "file").string()));
}

TEST_CASE("a device is written to, not replaced, and says when it is full") {
  if (!std::filesystem::is_character_file("/dev/full")) {
    MESSAGE("skipped: no /dev/full on this system");
    return;
  }
  const ScratchFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "device");
  CHECK(write_file_atomically(folder / "device", "text").error().what ==
        fmt::format(
            "cannot write {} (No space left on device); free some space or write to another folder",
            (folder / "device").string()));
  CHECK(std::filesystem::is_character_file(folder / "device"));
}

TEST_CASE("a pipe gets the content and stays a pipe") {
  const ScratchFolder folder;
  const Path pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  CHECK(write_file_atomically(pipe, "text"));
  std::string content(16, ' ');
  const ssize_t count = ::read(reader, content.data(), content.size());
  ::close(reader);
  REQUIRE(count == 4);
  CHECK(content.substr(0, 4) == "text");
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("files are listed by extension, below too, sorted") {
  const ScratchFolder folder;
  REQUIRE(make_folder(folder / "b/c"));
  REQUIRE(make_folder(folder / "b/c"));
  for (const char* name : {"b/c/x.toml", "z.toml", "a.toml", "a.csv"})
    REQUIRE(write_file_atomically(folder / name, ""));
  CHECK(list_files(folder.folder(), ".toml").value() ==
        std::vector<Path>{folder / "a.toml", folder / "b/c/x.toml", folder / "z.toml"});
}

TEST_CASE("a path that cannot be looked at is an error or absent, never an exception") {
  const ScratchFolder scratch;
  const Path loop = scratch.path("loop"), name_too_long = scratch.path(std::string(300, 'x'));
  std::filesystem::create_symlink(loop, loop);
  for (const Path& path : {loop, name_too_long}) {
    CHECK(!path_exists(path));
    CHECK(!is_folder(path));
    CHECK(!read_file(path));
  }
  CHECK(!write_file_atomically(name_too_long, "text"));
  CHECK(write_file_atomically(loop, "text"));  // in place of the link that leads nowhere
}

TEST_CASE("an output that is an input under any name is refused") {
  const ScratchFolder scratch;
  const std::string input = scratch.path("a"), link = scratch.path("link");
  REQUIRE(write_file_atomically(input, "text"));
  std::filesystem::create_symlink(input, link);
  CHECK(require_other_file(scratch.path("b"), {input}));
  const auto refused = require_other_file(link, {scratch.path("b"), input});
  REQUIRE(!refused);
  CHECK(refused.error().what.find("is read and would be written") != std::string::npos);
}

TEST_CASE("a file without an end is not read into all memory") {
  const auto endless = read_file("/dev/zero");
  REQUIRE(!endless);
  CHECK(endless.error().what.find("larger than 1 GiB") != std::string::npos);
}

TEST_CASE("a folder cannot be made where a file stands") {
  const ScratchFolder folder;
  REQUIRE(write_file_atomically(folder / "file", ""));
  CHECK_FALSE(make_folder(folder / "file"));
  CHECK_FALSE(make_folder(folder / "file/below"));
}

}  // namespace

}  // namespace triplepoint
