// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "triplepoint/app/site.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/http/server.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

class Serve : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("FOLDER", "folder of runs and studies", into(folder_),
              {.words = Words::folders, .required = true})
        .add(listen_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    std::error_code problem;
    const Path folder = std::filesystem::canonical(folder_, problem);
    if (problem || !std::filesystem::is_directory(folder, problem))
      return error("{}: no folder to serve ({}); make it, or name another", folder_,
                   problem ? problem.message() : "it is a file");
    app::Site site(folder);
    const HttpOptions options = TPT_TRY(listen_.options());
    const auto server = TPT_TRY(HttpServer::open(
        options, [&site](const HttpRequest& request) { return site.answer(request); }));
    console.warn(
        fmt::format("{} as pages: http://{}/ (Ctrl-C ends)\n", folder_, server->address()));
    console.flush();
    listen_for_interrupts();
    TPT_TRY(server->serve([] { return interrupted(); }));
    return exit_ok;
  }

 private:
  std::string folder_;
  ListenFlags listen_{"127.0.0.1:8080"};
};

}  // namespace

std::unique_ptr<Command> make_serve() {
  return std::make_unique<Serve>();
}

}  // namespace triplepoint::cli
