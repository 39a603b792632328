/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What every handler says about its arguments. */

#pragma once

#include "plugin/frame/reader.h"
#include "plugin/service/call.h"

G_BEGIN_DECLS

/* A string value as the handler's own, "" where the bytes hold a NUL (no name of ours does). */
gchar *tps_arguments_dup_string (TpsReader *in);

/* FALSE with INVALID_ARGUMENT "missing argument NAME" for the first bit of `names` (ended by NULL) that is not set in
 * `seen`: bit i stands for names[i]. */
gboolean tps_arguments_check (guint seen, const gchar *const *names, GError **error);

G_END_DECLS
