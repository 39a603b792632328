/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bytes of one message that came in chunks, in order, into the message. For both sides. */

#pragma once

#include "plugin/frame/scan.h"

G_BEGIN_DECLS

/* In the caller's storage. */
typedef struct
{
  TpsScanner *scanner;
  TpsMessage *message; /* when it is whole; to be stolen */
} TpsMessageBuilder;

/* A message of at most `max_bytes`; its bodies come from `bodies` (a reference is taken; NULL = the
 * default pool). */
void tps_message_builder_init (TpsMessageBuilder *builder, gsize max_bytes, TpsBufferPool *bodies);
void tps_message_builder_clear (TpsMessageBuilder *builder);

/* Takes the next bytes; `is_last` says that none follow. Errors: PROTOCOL (no message, or not of
 * that length), RESOURCE_EXHAUSTED. */
gboolean tps_message_builder_feed (TpsMessageBuilder *builder, GBytes *bytes, gboolean is_last,
                                   GError **error);

G_END_DECLS
