/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A store whose keys are files in a folder, for ranks of one machine without a server. */

#pragma once

#include "runtime/trainer/ports/store.h"

G_BEGIN_DECLS

/* Creates a store; the folder must exist. Freed through its table of functions. */
TpsStore *tps_file_store_new (const gchar *folder);

G_END_DECLS
