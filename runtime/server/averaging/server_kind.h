/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The registry of averaging servers by name (thriftps/service.h).
 *
 * The two built-in kinds differ only in when they fold contributions. Their averages have the same
 * bits, but need different amounts of memory and time.
 */

#pragma once

#include <thriftps/service.h>

#include "runtime/base/metrics.h"
#include "runtime/server/averaging/averaging.h"

G_BEGIN_DECLS

#define TPS_SERVER_KIND_DEFAULT "AverageParameterServer"

/* Returns the kind with this name, static; NULL = TPS_SERVER_KIND_DEFAULT. Errors:
 * TPS_ERROR_NOT_FOUND, listing the known kinds. Thread: any. */
const TpsServerKind *tps_server_kind_find (const gchar *name, GError **error);

/* Returns all kinds, the built-in ones first and the others in the order of registration,
 * NULL-terminated. The array is owned by the caller (g_free). Thread: any. */
const TpsServerKind **tps_server_kind_list (void);

G_END_DECLS
