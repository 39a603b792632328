/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any bytes as the input of a connection. The scanner's result must not depend on the division
 * of the bytes. Every message that it accepts must be well-formed: a reader that reads all its
 * fields must end exactly at the message's end. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/frame/message.h"
#include "plugin/frame/scan.h"
#include "runtime/base/error.h"

#define MAX_MESSAGE_BYTES (1 << 20)
#define POOL_BYTES (64 << 10)

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
check (gboolean claim)
{
  if (!claim)
    abort ();
}

/* Returns random numbers that depend only on the input. */
static guint32
roll (guint32 *state)
{
  *state = *state * 1664525 + 1013904223;
  return *state >> 16;
}

static void
check_well_formed (const TpsMessage *message)
{
  TpsReader in;

  tps_reader_init (&in, message);
  tps_reader_skip (&in, TPS_WIRE_STRUCT);
  if (message->n_bytes_refused > 0)
    return;
  check (!in.bad);
  check (in.position == message->head->len);
  check (in.next_body == message->n_bodies);
  check (g_utf8_validate (message->name, -1, NULL));
}

/* Appends the whole content of a message to `log`. */
static void
log_message (GByteArray *log, const TpsMessage *message)
{
  gint32 numbers[] = { (gint32) message->kind, (gint32) message->protocol, message->framed,
                       message->seqid };

  g_byte_array_append (log, (const guint8 *) numbers, sizeof numbers);
  g_byte_array_append (log, (const guint8 *) message->name, (guint) strlen (message->name) + 1);
  g_byte_array_append (log, message->head->data, message->head->len);
  for (guint i = 0; i < message->n_bodies; i++)
    {
      const TpsBody *body = &message->bodies[i];

      g_byte_array_append (log, (const guint8 *) &body->head_offset, sizeof body->head_offset);
      if (body->buffer != NULL)
        g_byte_array_append (log, tps_buffer_get_data (body->buffer), (guint) body->n_bytes);
    }
}

static void
take_messages (TpsScanner *scanner, GByteArray *log)
{
  TpsMessage *message;

  while ((message = tps_scanner_take (scanner)) != NULL)
    {
      check_well_formed (message);
      log_message (log, message);
      tps_message_free (message);
    }
}

/* Gives the scanner the next bytes as a connection would. Returns the number of consumed bytes. */
static gsize
give (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, gboolean into_body, GError **error)
{
  gsize n_consumed, n_missing;
  guint8 *chunk, *dest;

  if (into_body && tps_scanner_get_body (scanner, &dest, &n_missing))
    {
      n_bytes = MIN (n_bytes, n_missing);
      memcpy (dest, bytes, n_bytes);
      tps_scanner_body_received (scanner, n_bytes, error);
      return n_bytes;
    }
  chunk = g_memdup2 (bytes, n_bytes); /* a separate block, so a sanitizer detects reads beyond it */
  tps_scanner_feed (scanner, chunk, n_bytes, &n_consumed, error);
  g_free (chunk);
  return n_consumed;
}

/* Scans all bytes in chunks of up to `max_chunk` bytes (0 = in one). Returns the content of the
 * messages. If the bytes are refused for another reason than lack of memory, stores the reason in
 * `*reason`. */
static GByteArray *
scan (const guint8 *bytes, gsize n_bytes, gsize max_chunk, gsize max_head_bytes, gchar **reason)
{
  TpsScannerOptions options = { .max_message_bytes = MAX_MESSAGE_BYTES,
                                .max_head_bytes = max_head_bytes };
  g_autoptr (TpsBudget) budget = tps_budget_new (NULL, "bodies", POOL_BYTES);
  TpsBufferPool *pool = tps_buffer_pool_new (budget, NULL, POOL_BYTES);
  GByteArray *log = g_byte_array_new ();
  guint32 dice = (guint32) n_bytes;
  g_autoptr (GError) error = NULL;
  TpsScanner *scanner;
  gsize position = 0;

  options.bodies = pool;
  scanner = tps_scanner_new (&options);
  while (position < n_bytes && error == NULL)
    {
      gsize n_chunk = max_chunk == 0 ? n_bytes : 1 + roll (&dice) % max_chunk;
      gboolean into_body = max_chunk > 0 && roll (&dice) % 2;

      n_chunk = MIN (n_chunk, n_bytes - position);
      position += give (scanner, bytes + position, n_chunk, into_body, &error);
      take_messages (scanner, log);
    }
  /* If memory is short, the reason depends on the division of the bytes, because a later defect may
   * be found first. */
  if (error != NULL && error->code != TPS_ERROR_RESOURCE_EXHAUSTED)
    *reason = g_strdup (error->message);
  tps_scanner_free (scanner);
  check (tps_buffer_pool_get_n_bytes_out (pool) == 0);
  tps_buffer_pool_unref (pool);
  return log;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  g_autofree gchar *whole_reason = NULL;
  g_autofree gchar *short_reason = NULL;
  g_autoptr (GByteArray) whole = scan (data, size, 0, 0, &whole_reason);
  g_autoptr (GByteArray) short_of_memory = scan (data, size, 7, 300, &short_reason);

  for (gsize max_chunk = 1; max_chunk <= 64; max_chunk *= 8)
    {
      g_autofree gchar *reason = NULL;
      g_autoptr (GByteArray) cut = scan (data, size, max_chunk, 0, &reason);

      check (cut->len == whole->len);
      check (whole->len == 0 || memcmp (cut->data, whole->data, whole->len) == 0);
      check (reason == NULL || whole_reason == NULL || strcmp (reason, whole_reason) == 0);
    }
  return 0;
}
