/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any bytes as the header of a THeader frame that carries a good message. The frame must be
 * refused with a reason or be read, with the same result for any division of the bytes. Pairs that
 * were read can be sent again. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

#define MAX_FRAME_BYTES (1 << 20)
#define FIXED_BYTES 14 /* including the length of the frame */
#define MAX_INFO_BYTES (4 * 0xffff)

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
check (gboolean claim)
{
  if (!claim)
    abort ();
}

/* Method "m" with one field, in each protocol. */
static const guint8 binary_message[] =
    "\x80\x01\x00\x01\x00\x00\x00\x01m\x00\x00\x00\x01\x03\x00\x01\x05";
static const guint8 compact_message[] = "\x82\x21\x01\x01m\x13\x05";

static void
put_be (GByteArray *out, guint32 value, guint n_bytes)
{
  for (guint i = n_bytes; i > 0; i--)
    {
      guint8 byte = (guint8) (value >> (8 * (i - 1)));

      g_byte_array_append (out, &byte, 1);
    }
}

/* Makes a frame. The literals of messages end with a NUL, which is the message's stop byte. */
static GByteArray *
make_frame (const guint8 *info, gsize n_info, const guint8 *message, gsize n_message)
{
  GByteArray *frame = g_byte_array_new ();
  gsize n_padded = (n_info + 3) / 4 * 4;
  const guint8 zeros[3] = { 0 };

  put_be (frame, (guint32) (FIXED_BYTES - 4 + n_padded + n_message), 4);
  put_be (frame, 0x0fff, 2);
  put_be (frame, 0, 2);
  put_be (frame, 7, 4);
  put_be (frame, (guint32) (n_padded / 4), 2);
  g_byte_array_append (frame, info, (guint) n_info);
  g_byte_array_append (frame, zeros, (guint) (n_padded - n_info));
  g_byte_array_append (frame, message, (guint) n_message);
  return frame;
}

/* Returns the message, or NULL and `*reason`. If `n_chunk` is 0, the bytes are scanned in one
 * piece. */
static TpsMessage *
scan (const GByteArray *frame, gsize n_chunk, gchar **reason)
{
  const TpsScannerOptions options = { .max_message_bytes = MAX_FRAME_BYTES };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&options);
  g_autoptr (GError) error = NULL;
  gsize position = 0, n_consumed;

  while (position < frame->len && error == NULL)
    {
      gsize n = n_chunk == 0 ? frame->len - position : MIN (n_chunk, frame->len - position);
      guint8 *chunk = g_memdup2 (frame->data + position, n); /* a sanitizer sees reads beyond it */

      tps_scanner_feed (scanner, chunk, n, &n_consumed, &error);
      position += n_consumed;
      g_free (chunk);
    }
  if (error != NULL)
    *reason = g_strdup (error->message);
  return tps_scanner_take (scanner);
}

/* Checks the stored pairs of a message. Adds them to `out` if `other` is NULL, and otherwise
 * compares them with those of `other`. */
static void
add_pairs (const TpsMessage *message, TpsWriter *out, const TpsMessage *other)
{
  const gchar *key = message->headers;

  check (message->n_headers <= TPS_MESSAGE_MAX_HEADERS);
  for (guint i = 0; i < message->n_headers; i++)
    {
      const gchar *value = key + strlen (key) + 1;

      check (value + strlen (value) < message->headers + message->n_header_bytes);
      check (tps_message_get_header (message, key) == value);
      check (g_utf8_validate (key, -1, NULL) && g_utf8_validate (value, -1, NULL));
      if (other != NULL)
        check (strcmp (tps_message_get_header (other, key), value) == 0);
      else
        tps_writer_add_header (out, key, value);
      key = value + strlen (value) + 1;
    }
}

static void
check_sent_again (const TpsMessage *message)
{
  TpsWriter *out = tps_writer_new (message->protocol, TRUE);
  g_autoptr (GByteArray) frame = g_byte_array_new ();
  g_autoptr (TpsMessage) again = NULL;
  g_autofree gchar *reason = NULL;
  const struct iovec *pieces;
  guint n_pieces;

  tps_writer_set_header (out, message->header_seqid);
  add_pairs (message, out, NULL);
  tps_writer_message_begin (out, message->name, message->kind, message->seqid);
  tps_writer_struct_begin (out);
  tps_writer_struct_end (out);
  check (tps_writer_message_end (out, NULL));
  pieces = tps_writer_get_pieces (out, &n_pieces, NULL);
  for (guint i = 0; i < n_pieces; i++)
    g_byte_array_append (frame, pieces[i].iov_base, (guint) pieces[i].iov_len);
  again = scan (frame, 0, &reason);
  /* Each pair gets its own block, which takes one or two bytes more, so the header may exceed the
   * limit. */
  check (again != NULL || message->n_header_bytes > TPS_MESSAGE_MAX_HEADER_BYTES / 2);
  if (again != NULL)
    {
      check (again->n_headers == message->n_headers && again->header_seqid == 7);
      add_pairs (message, NULL, again);
    }
  tps_writer_free (out);
}

static void
check_frame (const guint8 *info, gsize n_info, const guint8 *bytes, gsize n_bytes)
{
  g_autoptr (GByteArray) frame = make_frame (info, n_info, bytes, n_bytes);
  g_autofree gchar *reason = NULL;
  g_autoptr (TpsMessage) whole = scan (frame, 0, &reason);

  check ((whole == NULL) == (reason != NULL));
  for (gsize n_chunk = 1; n_chunk <= 16; n_chunk *= 4)
    {
      g_autofree gchar *cut_reason = NULL;
      g_autoptr (TpsMessage) cut = scan (frame, n_chunk, &cut_reason);

      check (g_strcmp0 (reason, cut_reason) == 0 && (whole == NULL) == (cut == NULL));
      if (whole != NULL)
        add_pairs (whole, NULL, cut);
    }
  if (whole != NULL)
    check_sent_again (whole);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  if (size > MAX_INFO_BYTES)
    return 0;
  check_frame (data, size, binary_message, sizeof binary_message);
  check_frame (data, size, compact_message, sizeof compact_message);
  return 0;
}
