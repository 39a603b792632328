/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Builds a message from its bytes, which come in chunks and in order. For both sides. */

#pragma once

#include "plugin/frame/scan.h"

G_BEGIN_DECLS

/* In the caller's storage. */
typedef struct
{
  TpsScanner *scanner;
  TpsMessage *message; /* after the last bytes; callers may steal it */
} TpsMessageBuilder;

/* Begins a message of at most `max_bytes`. Its bodies come from `bodies` (a reference is taken;
 * NULL = the default pool). */
void tps_message_builder_init (TpsMessageBuilder *builder, gsize max_bytes, TpsBufferPool *bodies);
void tps_message_builder_clear (TpsMessageBuilder *builder);

/* Adds the next bytes; `is_last`: there are no more. Errors: PROTOCOL (no message, or not of that
 * length), RESOURCE_EXHAUSTED. */
gboolean tps_message_builder_feed (TpsMessageBuilder *builder, GBytes *bytes, gboolean is_last,
                                   GError **error);

G_END_DECLS
