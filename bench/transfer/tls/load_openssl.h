/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The load generator that has `openssl s_client` and `openssl s_server` move the bytes of a row, as
 * one stream (row.h; README.md says how). Pushes and pulls alone, on one connection. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* `certificate` names a file in a folder of the run. `address` is not used. The exit status. */
gint tps_transfer_load_openssl (const gchar *address, gsize max_bytes, const gchar *certificate);

G_END_DECLS
