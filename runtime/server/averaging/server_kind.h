/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The registry of averaging servers by name. Kinds share everything but when they fold: the averages are the same to the
 * bit, memory and time are not.
 */

#pragma once

#include "runtime/server/averaging/averaging.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *name;
  const gchar *summary; /* one line for --list */
  TpsMayFoldFunc may_fold;
} TpsServerKind;

#define TPS_SERVER_KIND_DEFAULT "AverageParameterServer"

/* Static. NULL `name` = the default. Errors: TPS_ERROR_NOT_FOUND, listing the known. Thread: any. */
const TpsServerKind *tps_server_kind_find (const gchar *name, GError **error);

/* Makes a kind of one's own known; `kind` must live as long as the process. Errors: TPS_ERROR_ALREADY_EXISTS,
 * TPS_ERROR_RESOURCE_EXHAUSTED (after some dozens). Thread: any. */
gboolean tps_server_kind_register (const TpsServerKind *kind, GError **error);

/* All kinds, the built-in ones first, then in the order of registration; NULL at the end. The array is the caller's
 * (g_free). Thread: any. */
const TpsServerKind **tps_server_kind_list (void);

G_END_DECLS
