// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/gpu_opening.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/amd/sensor.h"
#include "triplepoint/telemetry/nvml/sensor.h"
#include "triplepoint/telemetry/open_file.h"

namespace triplepoint::telemetry {

namespace {

// GPUs that answer within this come together, in their order.
constexpr Seconds list_limit = 2 * unit::s, open_limit = 3 * unit::s;

bool any_word_means(const std::vector<std::string>& words, const run::Device& device) {
  if (words.empty()) return true;
  return std::ranges::any_of(words, [&](const std::string& word) {
    const auto selected = select_devices({device}, {word});
    return selected && selected->front();
  });
}

/// How many GPUs of a vendor the PCI bus has, whatever the drivers say.
int on_the_bus(const Path& sysfs, std::string_view vendor) {
  int count = 0;
  const Path devices = sysfs / "bus/pci/devices";
  for (const std::string& address : names_in(devices)) {
    const std::string kind = first_line(devices / address / "class");
    const bool is_gpu = kind.starts_with("0x0302") || kind.starts_with("0x0300") ||
                        kind.starts_with("0x0380") || kind.starts_with("0x1200");
    if (is_gpu && first_line(devices / address / "vendor") == vendor) ++count;
  }
  return count;
}

/// A GPU on its way; by the state's mutex.
struct GpuSlot {
  enum class Stage { listing, listed, open, unwanted, failed };
  Stage stage = Stage::listing;
  DeviceFacts facts;
  std::unique_ptr<Sensor> sensor;
  GapList missing;
  std::vector<Gap> gaps;
};

/// All GPUs of a vendor on their way; shared by their threads.
struct VendorOpening {
  VendorOpening(int place_of_parts, std::string name, size_t gpus)
      : place(place_of_parts), vendor(std::move(name)), slots(gpus) {}

  const int place;
  const std::string vendor;
  std::vector<GpuSlot> slots;
  bool collected = false;  // what is open after that is delivered GPU by GPU

  void set_stage(OpeningState& state, size_t number, GpuSlot::Stage stage,
                 const std::function<void(GpuSlot&)>& change);
  void set_open(OpeningState& state, size_t number, DeviceFacts facts,
                std::unique_ptr<Sensor> sensor, GapList missing);
  bool all_beyond(GpuSlot::Stage stage) const {
    return std::ranges::all_of(slots, [&](const GpuSlot& slot) { return slot.stage > stage; });
  }
  Sensors collect(OpeningState& state);
  Sensors part_of(GpuSlot& slot) const;
};

void VendorOpening::set_stage(OpeningState& state, size_t number, GpuSlot::Stage stage,
                              const std::function<void(GpuSlot&)>& change) {
  const std::lock_guard lock(state.mutex);
  change(slots[number]);
  slots[number].stage = stage;
  state.changed.notify_all();
}

void VendorOpening::set_open(OpeningState& state, size_t number, DeviceFacts facts,
                             std::unique_ptr<Sensor> sensor, GapList missing) {
  set_stage(state, number, GpuSlot::Stage::open, [&](GpuSlot& slot) {
    slot.facts = std::move(facts);
    slot.sensor = std::move(sensor);
    slot.missing = std::move(missing);
    if (!collected) return;
    Sensors late = part_of(slot);
    late.gaps = slot.missing.gaps();
    state.ready[place].push_back(std::move(late));
  });
}

/// The sensor and its facts; facts alone where it is not open.
Sensors VendorOpening::part_of(GpuSlot& slot) const {
  Sensors part;
  slot.facts.device.index = 0;
  slot.facts.vendor = vendor;
  slot.facts.sensor = slot.sensor ? 0 : -1;
  if (slot.sensor) part.all.push_back(std::move(slot.sensor));
  part.devices.push_back(slot.facts);
  return part;
}

Sensors VendorOpening::collect(OpeningState& state) {
  const std::lock_guard lock(state.mutex);
  Sensors part;
  GapList missing;
  for (GpuSlot& slot : slots) {
    const auto stage = slot.stage;
    part.gaps.insert(part.gaps.end(), slot.gaps.begin(), slot.gaps.end());
    if (stage == GpuSlot::Stage::failed || stage == GpuSlot::Stage::unwanted) continue;
    if (!any_word_means(state.options.devices, slot.facts.device)) continue;
    add_sensors(part, part_of(slot));
    missing.add(slot.missing);
  }
  for (Gap& gap : missing.gaps())
    part.gaps.push_back(std::move(gap));
  collected = true;
  return part;
}

struct NvidiaOpening : VendorOpening {
  explicit NvidiaOpening(std::shared_ptr<nvml::Driver> opened)
      : VendorOpening(OpeningState::nvidia, "nvidia", as_size(nvml::num_devices(*opened))),
        driver(std::move(opened)) {}
  std::shared_ptr<nvml::Driver> driver;
  void open(OpeningState& state, size_t number);
};

void NvidiaOpening::open(OpeningState& state, size_t number) {
  std::vector<Gap> gaps;
  auto listed = nvml::list_device(*driver, static_cast<int32_t>(number), gaps);
  if (!listed)
    return set_stage(state, number, GpuSlot::Stage::failed,
                     [&](GpuSlot& slot) { slot.gaps = std::move(gaps); });
  set_stage(state, number, GpuSlot::Stage::listed,
            [&](GpuSlot& slot) { slot.facts.device = listed->device; });
  if (!any_word_means(state.options.devices, listed->device))
    return set_stage(state, number, GpuSlot::Stage::unwanted, [](GpuSlot&) {});
  DeviceFacts facts = nvml::device_facts(*driver, *listed);
  GapList missing;
  auto sensor = nvml::make_sensor(driver, *listed, state.options.gpm, missing);
  set_open(state, number, std::move(facts), std::move(sensor), std::move(missing));
}

struct AmdOpening : VendorOpening {
  explicit AmdOpening(std::unique_ptr<amd::Node> found)
      : VendorOpening(OpeningState::amd, "amd", found->devices().size()), node(std::move(found)) {}
  const std::unique_ptr<amd::Node> node;
  void open(OpeningState& state, size_t number);
};

void AmdOpening::open(OpeningState& state, size_t number) {
  DeviceFacts facts = node->facts(number);
  GapList missing;
  auto sensor = node->open(number, missing);
  set_open(state, number, std::move(facts), std::move(sensor), std::move(missing));
}

bool means(const std::string& word, const run::Device& device) {
  if (const auto one = number_of_text<int32_t>(word)) return device.local == *one;
  const auto dash = word.find('-');
  const auto first = number_of_text<int32_t>(std::string_view(word).substr(0, dash));
  if (dash != std::string::npos && first) {
    const auto last = number_of_text<int32_t>(std::string_view(word).substr(dash + 1));
    return last && device.local >= *first && device.local <= *last;
  }
  const std::string small = lower_case(word);
  if (contains(word, ':')) return lower_case(device.pci).ends_with(small);
  return word.size() >= 4 && lower_case(device.uuid).starts_with(small);
}

std::string those_there(const std::vector<run::Device>& devices) {
  const std::vector<int32_t> numbers = mapped(devices, &run::Device::local);
  if (numbers.empty()) return "no GPU was found; see triplepoint doctor";
  return "there are " + ranges_of(numbers);
}

}  // namespace

void open_nvidia(OpeningState& state) {
  auto opened = nvml::Driver::open(state.options.paths.nvml);
  if (!opened) {
    const bool there = on_the_bus(state.options.paths.sysfs, "0x10de") > 0;
    Sensors part;
    part.gaps.push_back({"NVIDIA GPUs", opened.error().what,
                         there ? "install NVIDIA's driver, or in a container add --gpus all" : ""});
    state.publish(state.nvidia_list, {});
    return state.deliver(OpeningState::nvidia, std::move(part));
  }
  const auto all = std::make_shared<NvidiaOpening>(*std::move(opened));
  for (size_t i = 0; i < all->slots.size(); ++i) {
    all->slots[i].facts.device.local = static_cast<int32_t>(i);
    state.start(fmt::format("GPU {}", i), [all, i](OpeningState& of) { all->open(of, i); });
  }
  state.wait_until(list_limit, [&] { return all->all_beyond(GpuSlot::Stage::listing); });
  OpeningState::Devices listed;
  {
    const std::lock_guard lock(state.mutex);
    for (const GpuSlot& slot : all->slots)
      if (slot.stage != GpuSlot::Stage::failed) listed.push_back(slot.facts.device);
  }
  state.publish(state.nvidia_list, std::move(listed));
  state.wait_until(open_limit, [&] { return all->all_beyond(GpuSlot::Stage::listed); });
  state.deliver(OpeningState::nvidia, all->collect(state));
  Sensors versions;
  nvml::driver_facts(*all->driver, versions.node);
  state.deliver(OpeningState::nvidia, std::move(versions));
}

void open_amd(OpeningState& state) {
  Sensors part;
  auto node = amd::find_devices(state.options.paths, part.gaps);
  state.deliver(OpeningState::amd, std::move(part));
  // NVIDIA's GPUs are numbered first.
  state.wait_until(list_limit + open_limit, [&] { return state.nvidia_list.has_value(); });
  int32_t first = 0;
  {
    const std::lock_guard lock(state.mutex);
    if (state.nvidia_list) first = static_cast<int32_t>(state.nvidia_list->size());
  }
  for (run::Device& device : node->devices()) {
    device.local += first;
    if (device.power_counted_on) *device.power_counted_on += first;
  }
  const auto all = std::make_shared<AmdOpening>(std::move(node));
  state.publish(state.amd_list, all->node->devices());
  for (size_t i = 0; i < all->slots.size(); ++i) {
    const run::Device& device = all->node->devices()[i];
    const bool wanted = any_word_means(state.options.devices, device);
    all->set_stage(state, i, wanted ? GpuSlot::Stage::listed : GpuSlot::Stage::unwanted,
                   [&](GpuSlot& slot) { slot.facts.device = device; });
    if (wanted)
      state.start(fmt::format("GPU {}", device.local),
                  [all, i](OpeningState& of) { all->open(of, i); });
  }
  state.wait_until(open_limit, [&] { return all->all_beyond(GpuSlot::Stage::listed); });
  state.deliver(OpeningState::amd, all->collect(state));
}

Result<std::vector<bool>> select_devices(const std::vector<run::Device>& devices,
                                         const std::vector<std::string>& words) {
  std::vector<bool> selected(devices.size(), words.empty());
  for (const std::string& word : words) {
    if (word == "none") continue;
    bool found = false;
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (means(word, devices[i])) selected[i] = found = true;
    if (!found)
      return error(
          "no GPU is called '{}' (a number, a range like 0-3, the beginning of "
          "a UUID or a PCI address); {}",
          word, those_there(devices));
  }
  return selected;
}

}  // namespace triplepoint::telemetry
