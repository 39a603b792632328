/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The struct that the files of the writer share. Private to them. */

#pragma once

#include <string.h>

#include "plugin/frame/writer.h"

G_BEGIN_DECLS

#define TPS_WRITER_MAX_DEPTH 64 /* nesting of structs in written messages */

struct TpsWriter
{
  GList link;
  gboolean compact;
  gboolean framed;
  gboolean too_long;   /* a length or count exceeds 31 bits */
  gboolean impossible; /* a length or count that the protocol cannot express */
  GError *failure;     /* NULL = none */

  guint8 *head;
  gsize n_head;
  gsize n_allocated;
  TpsCharge charge; /* for the head and copies; with a reference to the budget */
  gsize n_copies;   /* charged bytes of copies outside the head */
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

/* Reserves `n_bytes` at the end of the head. If there is no memory, the message fails, and later
 * bytes overwrite the head from its beginning. Returns FALSE if the head then has no room for
 * `n_bytes`. */
gboolean tps_writer_grow (TpsWriter *out, gsize n_bytes);

/* Appends `n_bytes`, at most 16, to the head, and returns their memory, which the caller must fill
 * in. Returns memory even if the message has failed. */
static inline guint8 *
tps_writer_extend (TpsWriter *out, gsize n_bytes)
{
  if (G_UNLIKELY (n_bytes > out->n_allocated - out->n_head))
    tps_writer_grow (out, n_bytes);
  out->n_head += n_bytes;
  return out->head + out->n_head - n_bytes;
}

/* Appends a copy of `bytes` [n_bytes] to the head. If there is no memory, the message fails. */
static inline void
tps_writer_put_bytes (TpsWriter *out, gconstpointer bytes, gsize n_bytes)
{
  if (n_bytes == 0 || (n_bytes > out->n_allocated - out->n_head && !tps_writer_grow (out, n_bytes)))
    return;
  memcpy (out->head + out->n_head, bytes, n_bytes);
  out->n_head += n_bytes;
}

/* Writes the length prefix of a binary. A length of more than 31 bits is possible in a transfer
 * only. */
void tps_writer_put_binary_length (TpsWriter *out, gsize length);

G_END_DECLS
