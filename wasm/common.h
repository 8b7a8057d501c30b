// SPDX-License-Identifier: Apache-2.0
#pragma once

// What most files of the library include, compiled once for all of them.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/names.h"
