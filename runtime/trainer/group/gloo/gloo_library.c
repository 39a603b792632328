/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The only exported symbol of libtps_gloo.so. */

#include "runtime/trainer/group/gloo_library.h"

#include "runtime/base/error.h"
#include "runtime/trainer/group/process_groups.h"

extern const TpsGlooLibrary tps_gloo_library;

const TpsGlooLibrary tps_gloo_library = {
  .abi = TPS_GLOO_LIBRARY_ABI,
  .version = TPS_VERSION,
  .group_new = tps_gloo_process_group_new,
};
