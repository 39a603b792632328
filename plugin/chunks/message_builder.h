/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Builds a message from its bytes, which come in chunks and in order. Used by both sides. */

#pragma once

#include "plugin/frame/scan.h"

G_BEGIN_DECLS

/* A builder, in the caller's storage. */
typedef struct
{
  TpsScanner *scanner;
  TpsMessage *message; /* NULL before the last bytes; callers may steal the message */
} TpsMessageBuilder;

/* Begins a message of at most `max_bytes`. Its bodies come from `bodies` (a reference is taken;
 * NULL = the default pool). The caller must clear the builder. */
void tps_message_builder_init (TpsMessageBuilder *builder, gsize max_bytes, TpsBufferPool *bodies);
void tps_message_builder_clear (TpsMessageBuilder *builder);

/* Adds the next bytes. If `is_last` is TRUE, they must complete the message. Errors: PROTOCOL (the
 * bytes do not form a message, or the message ends earlier or later), RESOURCE_EXHAUSTED. */
gboolean tps_message_builder_feed (TpsMessageBuilder *builder, GBytes *bytes, gboolean is_last,
                                   GError **error);

G_END_DECLS
