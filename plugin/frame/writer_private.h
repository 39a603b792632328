/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The struct that the writer's files share. Private to them. */

#pragma once

#include <string.h>

#include "plugin/frame/writer.h"

G_BEGIN_DECLS

#define TPS_WRITER_MAX_DEPTH 64 /* of structs in our own messages */

struct TpsWriter
{
  GList link;
  gboolean compact;
  gboolean framed;
  gboolean too_long;   /* a length or count exceeds 31 bits */
  gboolean impossible; /* and the protocol cannot express it */
  GError *failure;     /* NULL = none */

  guint8 *head;
  gsize n_head;
  gsize n_allocated;
  TpsCharge charge; /* for the head and copies; with a reference of the budget */
  gsize n_copies;   /* bytes of copies outside the head, as charged */
  gsize n_spliced_bytes;
  gsize n_prefix;  /* bytes of the head before the message: the frame's length and header */
  gsize n_skipped; /* bytes of the head that are not sent: the prefix, in a transfer */
  GArray *splices; /* binaries that are sent between bytes of the head */
  GArray *pieces;  /* of struct iovec */

  gboolean bool_pending;
  gint16 bool_id;
  guint depth;
  gint16 last_ids[TPS_WRITER_MAX_DEPTH + 1]; /* [0] is not used: fields occur only in structs */

  TpsSharing *sharing;
  gint descriptor; /* -1 = none */

  GDestroyNotify queued;
  gpointer queued_data;

  GDestroyNotify released;
  gpointer released_data;
};

/* Reserves that many bytes at the end of the head. FALSE: there is no memory; the message has
 * failed, and later writes are dropped. */
gboolean tps_writer_grow (TpsWriter *out, gsize n_bytes);

/* Returns room for that many bytes at the end of the head, at most 16; there is also room in a
 * failed message. */
static inline guint8 *
tps_writer_extend (TpsWriter *out, gsize n_bytes)
{
  if (G_UNLIKELY (n_bytes > out->n_allocated - out->n_head))
    tps_writer_grow (out, n_bytes);
  out->n_head += n_bytes;
  return out->head + out->n_head - n_bytes;
}

static inline void
tps_writer_put_bytes (TpsWriter *out, gconstpointer bytes, gsize n_bytes)
{
  if (n_bytes == 0 || (n_bytes > out->n_allocated - out->n_head && !tps_writer_grow (out, n_bytes)))
    return;
  memcpy (out->head + out->n_head, bytes, n_bytes);
  out->n_head += n_bytes;
}

/* Writes the length of a binary, which may exceed 31 bits in a transfer. */
void tps_writer_put_binary_length (TpsWriter *out, gsize length);

G_END_DECLS
