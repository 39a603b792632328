/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface of libtps_gloo.so. This library keeps Gloo out of programs that must run without
 * Gloo.
 *
 * tps_gloo_process_group_new() has two definitions. Programs of this tree link the one in gloo/.
 * Installed programs and libthriftps.so link the one in gloo_loader.c, which loads libtps_gloo.so
 * at the first call. The library exports one symbol, a TpsGlooLibrary. The library must be built
 * from the same source as the program: ABI number and version must be equal. */

#pragma once

#include "runtime/trainer/ports/process_group.h"

#define TPS_GLOO_LIBRARY_SYMBOL "tps_gloo_library"
/* Must be increased with every change of TpsGlooLibrary and of TpsProcessGroupOps. */
#define TPS_GLOO_LIBRARY_ABI 2

typedef struct
{
  guint32 abi;          /* TPS_GLOO_LIBRARY_ABI; first in every version */
  const gchar *version; /* TPS_VERSION */
  /* As tps_process_group_new(). */
  TpsProcessGroup *(*group_new) (const TpsProcessGroupOptions *options, GError **error);
} TpsGlooLibrary;
