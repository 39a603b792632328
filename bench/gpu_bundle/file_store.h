/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A store whose keys are files in a folder, for ranks of one machine that have no server. */

#pragma once

#include "runtime/ports/store.h"

G_BEGIN_DECLS

/* Creates a store. `folder` must exist; the path is copied. The caller owns the result, and frees
 * it through its table of functions. */
TpsStore *tps_file_store_new (const gchar *folder);

G_END_DECLS
