// SPDX-License-Identifier: Apache-2.0
#define TPT_NEW_CPU_MATH new_cpu_math_avx2
#include "trainer/math/cpu_math.h"
#include "trainer/math/cpu_math_body.h"
