/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the writer's files share: the array that it writes into. */

#pragma once

#include <string.h>

#include "plugin/frame/writer.h"

G_BEGIN_DECLS

#define TPS_WRITER_MAX_DEPTH 64 /* of structs that we write ourselves */

struct TpsWriter
{
  GList link;
  gboolean compact;
  gboolean framed;
  gboolean too_long;   /* a binary or a count does not fit into 31 bits */
  gboolean impossible; /* and the protocol has no way to say it */
  GError *failure;     /* NULL = none */

  guint8 *head;
  gsize n_head;
  gsize n_allocated;
  TpsCharge charge; /* of the head and of copies; with a reference of the budget */
  gsize n_copies;   /* bytes of copies beside the head, as they are charged */
  gsize n_spliced_bytes;
  gsize n_prefix;  /* bytes of the head before the message: the frame's length and header */
  gsize n_skipped; /* bytes of the head that are not sent: the prefix, in a transfer */
  GArray *splices; /* of what goes out between bytes of the head */
  GArray *pieces;  /* of struct iovec */

  gboolean bool_pending;
  gint16 bool_id;
  guint depth;
  gint16 last_ids[TPS_WRITER_MAX_DEPTH + 1]; /* [0] is not used: fields stand in structs */

  TpsSharing *sharing;
  gint descriptor; /* -1 = none */

  GDestroyNotify queued;
  gpointer queued_data;

  GDestroyNotify released;
  gpointer released_data;
};

/* Makes room for so many bytes at the end of the head. FALSE: there is no memory; the message has
 * failed, and what is written from then on is dropped. */
gboolean tps_writer_grow (TpsWriter *out, gsize n_bytes);

/* Room for so many bytes at the end of the head, 16 at most: a message that has failed has as
 * much. */
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

/* The length of a binary, which in a transfer may be a long one. */
void tps_writer_put_binary_length (TpsWriter *out, gsize length);

G_END_DECLS
