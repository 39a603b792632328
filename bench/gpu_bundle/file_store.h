/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A store of keys in a folder, where ranks of one machine meet without a server. */

#pragma once

#include "runtime/trainer/ports/store.h"

G_BEGIN_DECLS

/* The folder must be there. Freed through its table. */
TpsStore *tps_file_store_new (const gchar *folder);

G_END_DECLS
