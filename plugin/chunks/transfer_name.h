/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The names of transfers. They are secret: only a client that knows a name can use its transfer.
 * They are unique: two clients never share a name. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_TRANSFER_NAME_BYTES 33 /* with its NUL */

/* Sets `name` to 128 random bits in hexadecimal. Thread: any. */
void tps_transfer_make_name (gchar name[TPS_TRANSFER_NAME_BYTES]);

G_END_DECLS
