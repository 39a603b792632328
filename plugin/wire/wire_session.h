/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/session.thrift: the methods as TpsRpcs (rpc.h), with their arguments. */

#pragma once

#include "plugin/wire/rpc.h"

G_BEGIN_DECLS

#define TPS_CONTEXT_MAX_ENTRIES 16
#define TPS_CONTEXT_MAX_BYTES 4096 /* of all keys and values */

/* gchar *, UTF-8 without NUL. It is a secret. */
extern const TpsRpc tps_authenticate_rpc;

/* GHashTable * of gchar * to gchar *; it owns keys and values, and is created if it is NULL. */
extern const TpsRpc tps_set_context_rpc;

G_END_DECLS
