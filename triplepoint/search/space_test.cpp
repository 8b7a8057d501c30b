// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/space.h"

#include <set>

#include "triplepoint/spec/job.h"

#include "triplepoint/search/testing.h"

namespace triplepoint::search {
namespace {

/// A word for everything that tells plans apart.
std::string key_of(const spec::Job& base, const spec::Plan& plan) {
  spec::Job job = base;
  job.plan = plan;
  return spec::write_job(job);
}

TEST_CASE("every plan of a space can run, and none carries an option without effect") {
  for (const spec::Job& base : test::few_jobs()) {
    const Space space(base, Reach::everything, {});
    REQUIRE(space.size() > 1000);
    for (int64_t i = 0; i < space.size(); i += 37) {
      spec::Job job = base;
      job.plan = space.plan(i);
      for (const spec::Diagnosis& diagnosis : spec::diagnose(job)) {
        CAPTURE(diagnosis.what);
        CHECK(diagnosis.severity != spec::Diagnosis::Severity::error);
        CHECK(diagnosis.code != spec::DiagnosisCode::inert_option);
      }
    }
  }
}

TEST_CASE("no two plans of a space are the same") {
  const spec::Job base = test::job_on("gpt3-5b", "dgx-a100", {.nodes = 1, .batch = 8});
  const Space space(base, Reach::launchable, must(parse_fixed("cp=1,mbs=1|2")));
  std::set<std::string> seen;
  for (int64_t i = 0; i < space.size(); ++i)
    seen.insert(key_of(base, space.plan(i)));
  CHECK(static_cast<int64_t>(seen.size()) == space.size());
}

TEST_CASE("a space holds what a user would write down by hand") {
  const spec::Job base = test::job_on("gpt3-175b", "hgx-h200", {.nodes = 4, .batch = 128});
  const Space space(base, Reach::launchable,
                    must(parse_fixed("tp=8,pp=4,vpp=1,mbs=2,recompute=full,sp=on,cp=1")));
  REQUIRE(space.layouts().size() == 1);
  CHECK(space.layouts()[0] == Layout{.tensor = 8, .pipeline = 4, .expert_tensor = 8, .micro = 2});
  bool found = false;
  for (int64_t i = 0; i < space.size(); ++i)
    found |= space.plan(i).recompute_layers == std::nullopt && space.plan(i).overlap_tensor &&
             space.plan(i).layers_per_stage.empty();
  CHECK(found);
}

TEST_CASE("full recompute can be fixed to all layers, whatever their number in a chunk") {
  const spec::Job base = test::job_on("gpt3-5b", "dgx-a100", {.nodes = 2, .batch = 16});
  const auto choices = [&](const char* fix) {
    const Space space(base, Reach::launchable, must(parse_fixed(fix)));
    std::set<std::optional<int64_t>> found;
    for (int64_t i = 0; i < space.size(); ++i)
      found.insert(space.plan(i).recompute_layers);
    return found;
  };
  using Choices = std::set<std::optional<int64_t>>;
  CHECK(choices("pp=1|2|4,recompute=full,recompute-layers=all") == Choices{std::nullopt});
  CHECK(choices("pp=2,vpp=1,recompute=full,recompute-layers=3|all") == Choices{std::nullopt, 3});
}

TEST_CASE("the ranks of a context group share the optimizer's state, and its traffic hides") {
  const spec::Job base = test::job_on("llama3-8b", "dgx-h100", {.nodes = 1, .batch = 8});
  const Space space(base, Reach::launchable,
                    must(parse_fixed("tp=4,pp=1,cp=2,mbs=1,sharding=optimizer")));
  REQUIRE(space.size() > 0);
  bool hides = false;
  for (int64_t i = 0; i < space.size(); ++i)
    hides |= space.plan(i).overlap_gradient && space.plan(i).overlap_parameter;
  CHECK(hides);
}

void check_reaches(const spec::Job& base) {
  CAPTURE(base.model.name);
  const auto keys = [&](Reach reach) {
    const Space space(base, reach, must(parse_fixed("cp=1,mbs=1")));
    std::set<std::string> seen;
    for (int64_t i = 0; i < space.size(); ++i)
      seen.insert(key_of(base, space.plan(i)));
    CHECK(static_cast<int64_t>(seen.size()) == space.size());
    return seen;
  };
  const auto all = keys(Reach::everything), some = keys(Reach::launchable);
  CHECK(all.size() > some.size());
  CHECK(std::includes(all.begin(), all.end(), some.begin(), some.end()));
}

TEST_CASE("the exchange between experts is overlapped where Megatron-Core starts it") {
  spec::Job base = test::job_on("mixtral-8x7b", "dgx-h100", {.nodes = 2, .batch = 64});
  const auto overlapped = [&](const char* fix) {
    const Space space(base, Reach::launchable,
                      must(parse_fixed(std::string("cp=1,tp=2,mbs=1,") + fix)));
    int64_t count = 0;
    for (int64_t i = 0; i < space.size(); ++i) {
      const spec::Plan plan = space.plan(i);
      if (!plan.overlap_expert) continue;
      ++count;
      CHECK(spec::broken_condition_of_expert_overlap(base.model, plan).empty());
      CHECK(plan.sharding != spec::Sharding::parameters);
    }
    return std::pair(count, space.size());
  };
  for (const char* fix : {"ep=4,pp=2,vpp=2,overlap-ep=on", "ep=4,pp=1,overlap-ep=on"}) {
    CAPTURE(fix);
    const auto [count, size] = overlapped(fix);
    CHECK(size > 0);
    CHECK(count == size);
  }
  const auto [some, all] = overlapped("ep=4,pp=2,vpp=2");
  CHECK(some > 0);
  CHECK(some < all);
  CHECK(overlapped("ep=4,pp=2,overlap-ep=off").first == 0);
  for (const char* fix :
       {"ep=4,pp=2,vpp=1", "ep=1", "ep=4,pp=2,vpp=2,recompute=full", "ep=4,sharding=parameters"}) {
    CAPTURE(fix);
    CHECK(overlapped(fix).first == 0);
  }
  base.plan.global_batch_size = 8;  // one microbatch on a single stage
  CHECK(overlapped("ep=4,pp=1").first == 0);
  base.plan.global_batch_size = 64;
  base.stack.framework = "torchtitan";
  CHECK(overlapped("ep=4,pp=2,vpp=2").first == 0);
}

TEST_CASE("everything holds all that is launchable") {
  for (const spec::Job& base :
       {test::job_on("gpt3-5b", "dgx-a100", {.nodes = 1, .batch = 4}),
        test::job_on("mixtral-8x7b", "dgx-h100", {.batch = 4, .layers = 2})})
    check_reaches(base);
}
/// Whether some plan has it, and how many plans there are.
bool has_plan(const Space& space, const auto& is) {
  for (int64_t i = 0; i < space.size(); ++i)
    if (is(space.plan(i))) return true;
  return false;
}

TEST_CASE("hybrid sharding groups stay as given, in plans with FSDP whose replicas they divide") {
  spec::Job base = test::job_on("llama3-8b", "dgx-h100", {.nodes = 2, .batch = 16});
  base.plan.sharding_group_size = 8;
  const Space space(base, Reach::launchable, must(parse_fixed("tp=1|4,pp=1,cp=1,mbs=1")));
  bool keeps = false;
  for (int64_t i = 0; i < space.size(); ++i) {
    const spec::Plan plan = space.plan(i);
    const bool fits = plan.sharding == spec::Sharding::parameters && plan.tensor_parallel_size == 1;
    CHECK(plan.sharding_group_size == (fits ? 8 : 0));
    keeps |= fits;
  }
  CHECK(keeps);
}

TEST_CASE("FSDP shards over all ranks and over those of a node") {
  const spec::Job base = test::job_on("llama3-8b", "dgx-h100", {.nodes = 4, .batch = 32});
  const char* fixed = "tp=2,pp=1,cp=1,mbs=1,sharding=parameters";
  const Space space(base, Reach::launchable, must(parse_fixed(fixed)));
  for (const int64_t group : {0, 4})
    CHECK(has_plan(space, [&](const spec::Plan& p) { return p.sharding_group_size == group; }));
  const Space of_eight(base, Reach::launchable,
                       must(parse_fixed(std::string(fixed) + ",sharding-group=8")));
  CHECK(of_eight.size() > 0);
  for (int64_t i = 0; i < of_eight.size(); ++i)
    CHECK(of_eight.plan(i).sharding_group_size == 8);
}

TEST_CASE("selective recompute takes sets of modules where Megatron-Core can") {
  using enum spec::RecomputeModule;
  spec::Job base = test::job_on("deepseek-v3", "dgx-h100", {.nodes = 8, .batch = 64});
  const Fixed fixed = must(parse_fixed("tp=1,pp=4,vpp=1,ep=8,cp=1,mbs=1,recompute=selective"));
  const auto has = [](const Space& space, const ModuleSet& set) {
    return has_plan(space, [&](const spec::Plan& plan) { return plan.recompute_modules == set; });
  };
  const Space space(base, Reach::launchable, fixed);
  for (const ModuleSet& set : {ModuleSet{}, ModuleSet{mla_up_proj}, ModuleSet{mla_up_proj, moe_act},
                               ModuleSet{mla_up_proj, layernorm, moe}})
    CHECK(has(space, set));
  base.stack.framework = "torchtitan";
  CHECK_FALSE(has(Space(base, Reach::launchable, fixed), {mla_up_proj}));
  const Space chosen(base, Reach::launchable,
                     must(parse_fixed("tp=1,pp=4,vpp=1,ep=8,cp=1,mbs=1,recompute=selective,"
                                      "recompute-modules=moe_act+layernorm")));
  for (int64_t i = 0; i < chosen.size(); ++i)
    CHECK(chosen.plan(i).recompute_modules == ModuleSet{moe_act, layernorm});
}

TEST_CASE("chunks may hold unequal numbers of layers where less than a layer a stage is over") {
  const spec::Job base = test::job_on("deepseek-v3", "dgx-h100", {.nodes = 32, .batch = 1024});
  const auto splits = [&](const char* fixed) {
    return Space(base, Reach::launchable, must(parse_fixed(fixed))).size();
  };
  CHECK(splits("tp=2,pp=8,vpp=4,ep=16,mbs=1") > 0);  // 61 layers, embedding and head: 63 of 64
  CHECK(splits("tp=1,pp=16,vpp=2,ep=8,mbs=1") > 0);
  CHECK(splits("tp=2,pp=8,vpp=5,ep=16,mbs=1") == 0);  // 63 of 80
  CHECK(splits("tp=2,pp=8,vpp=4,ep=16,mbs=1,uneven=off") == 0);
}

TEST_CASE("the order of ranks is searched where it is asked for") {
  const spec::Job base = test::job_on("llama3-8b", "dgx-h100", {.nodes = 2, .batch = 16});
  const Space both(base, Reach::launchable,
                   must(parse_fixed("tp=2,pp=2,cp=1,rank-order=tp-cp-ep-dp-pp|tp-pp-dp")));
  for (const auto order : {spec::RankOrder::tp_cp_ep_dp_pp, spec::RankOrder::tp_pp_dp})
    CHECK(has_plan(both, [&](const spec::Plan& plan) { return plan.rank_order == order; }));
}

TEST_CASE("splits hold every layer, and embedding and head are counted where they stand") {
  for (const int64_t layers : {9, 12, 61, 96})
    for (const int64_t parts : {2, 3, 4, 8}) {
      for (const Split split : {Split::even, Split::ends_count, Split::head_counts}) {
        const auto counts = layers_of_split(split, layers, parts);
        if (!counts || counts->empty()) continue;
        const int64_t sum = sum_of(*counts);
        CHECK(sum == layers);
        CHECK(counts->back() <= *std::ranges::max_element(*counts));
      }
      CHECK(layers_of_split(Split::even, layers, parts).has_value() == (layers % parts == 0));
    }
}

TEST_CASE("what may be fixed is said when a key or a value is wrong") {
  CHECK(must(parse_fixed("tp=8|4,recompute=full,uneven=off")).tensor == std::vector<int64_t>{8, 4});
  for (const char* wrong : {"tp", "tpp=8", "tp=x", "tp=0", "recompute=some", "sp=yes", "tp=8,,",
                            "recompute-modules=mlp+all", "tp=8,tp=4", "recompute-modules=mlp+mlp",
                            "rank-order=pp", "sharding-group=0", "recompute-layers=most"})
    CHECK_FALSE(parse_fixed(wrong).has_value());
  CHECK(parse_fixed("tpp=8").error().what.find("\"tp\"") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::search
