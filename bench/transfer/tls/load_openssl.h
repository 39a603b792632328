/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A load generator in which `openssl s_client` and `openssl s_server` move the bytes of a row as
 * one stream (row.h). Only pushes and pulls on one connection. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Runs the load generator. `certificate` is a file in a folder of the run; `address` is not used.
 * Returns the exit status. Blocks until the end of the standard input. */
gint tps_transfer_load_openssl (const gchar *address, gsize max_bytes, const gchar *certificate);

G_END_DECLS
