/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/frame/message.h"

#include <pthread.h>
#include <string.h>

/* Messages are made and freed with every call, so each thread keeps a few of them with their arrays. A message goes
 * into the cache of the thread that frees it, which need not be the one that made it. */
#define MAX_CACHED 32
#define MAX_CACHED_HEAD_BYTES 65536

typedef struct
{
  guint n_messages;
  TpsMessage *messages[MAX_CACHED];
} MessageCache;

static _Thread_local MessageCache cache;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static pthread_key_t cache_key; /* only for its destructor: frees the cache of a thread that ends */

static void
release_body (gpointer data)
{
  TpsBody *body = data;

  g_clear_pointer (&body->buffer, tps_buffer_unref);
}

static TpsMessage *
allocate (void)
{
  TpsMessage *message = g_new0 (TpsMessage, 1);

  message->head = g_byte_array_new ();
  message->bodies = g_array_new (FALSE, FALSE, sizeof (TpsBody));
  g_array_set_clear_func (message->bodies, release_body);
  return message;
}

static void
release (TpsMessage *message)
{
  g_byte_array_unref (message->head);
  g_array_unref (message->bodies);
  g_free (message);
}

static void
cache_clear (gpointer data)
{
  MessageCache *ending = data;

  while (ending->n_messages > 0)
    release (ending->messages[--ending->n_messages]);
}

static void
cache_key_create (void)
{
  if (pthread_key_create (&cache_key, cache_clear) != 0)
    g_error ("no thread-specific keys are left");
}

static gboolean
cache_put (TpsMessage *message)
{
  if (cache.n_messages == MAX_CACHED || message->head->len > MAX_CACHED_HEAD_BYTES)
    return FALSE;
  if (cache.n_messages == 0)
    {
      pthread_once (&cache_once, cache_key_create);
      pthread_setspecific (cache_key, &cache);
    }
  g_byte_array_set_size (message->head, 0);
  cache.messages[cache.n_messages++] = message;
  return TRUE;
}

static void
release_reservation (TpsMessage *message)
{
  tps_buffer_pool_release (message->head_pool, message->n_head_reserved);
  message->n_head_reserved = 0;
  g_clear_pointer (&message->head_pool, tps_buffer_pool_unref);
}

TpsMessage *
tps_message_new (void)
{
  TpsMessage *message;

  if (cache.n_messages == 0)
    return allocate ();
  message = cache.messages[--cache.n_messages];
  message->kind = (TpsMessageKind) 0;
  message->protocol = (TpsProtocolKind) 0;
  message->framed = FALSE;
  message->seqid = 0;
  message->n_bytes_refused = 0;
  return message;
}

void
tps_message_free (TpsMessage *message)
{
  if (message == NULL)
    return;
  g_clear_pointer (&message->name, g_free);
  if (message->head_pool != NULL)
    release_reservation (message);
  g_clear_pointer (&message->sharing, tps_sharing_unref);
  if (message->bodies->len > 0)
    g_array_set_size (message->bodies, 0);
  if (!cache_put (message))
    release (message);
}
