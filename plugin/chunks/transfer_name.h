/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Names of transfers. They are secret, so that only a client that knows a name reaches its
 * transfer, and unique, so that two clients never share one. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_TRANSFER_NAME_BYTES 33 /* with its NUL */

/* 128 random bits in hexadecimal. Thread: any. */
void tps_transfer_make_name (gchar name[TPS_TRANSFER_NAME_BYTES]);

G_END_DECLS
