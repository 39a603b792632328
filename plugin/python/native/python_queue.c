/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "plugin/python/native/python_call.h"

struct TpsPythonQueue
{
  gint references; /* atomic */
  gint fd;

  pthread_mutex_t lock; /* guards `tokens` */
  GQueue tokens;        /* of guint64 *, owned */
};

TpsPythonQueue *
tps_python_queue_new (void)
{
  gint fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  TpsPythonQueue *queue;

  if (fd < 0)
    return NULL;
  queue = g_new0 (TpsPythonQueue, 1);
  queue->references = 1;
  queue->fd = fd;
  pthread_mutex_init (&queue->lock, NULL);
  g_queue_init (&queue->tokens);
  return queue;
}

gint
tps_python_queue_get_fd (const TpsPythonQueue *queue)
{
  return queue->fd;
}

TpsPythonQueue *
tps_python_queue_ref (TpsPythonQueue *queue)
{
  g_atomic_int_inc (&queue->references);
  return queue;
}

void
tps_python_queue_unref (TpsPythonQueue *queue)
{
  if (!g_atomic_int_dec_and_test (&queue->references))
    return;
  g_queue_clear_full (&queue->tokens, g_free);
  pthread_mutex_destroy (&queue->lock);
  close (queue->fd);
  g_free (queue);
}

void
tps_python_queue_free (TpsPythonQueue *queue, gint32 owner)
{
  if (owner == getpid ())
    tps_python_queue_unref (queue);
}

void
tps_python_queue_put (TpsPythonQueue *queue_taken, guint64 token)
{
  guint64 one = 1;
  gssize n_written;

  pthread_mutex_lock (&queue_taken->lock);
  g_queue_push_tail (&queue_taken->tokens, g_memdup2 (&token, sizeof token));
  pthread_mutex_unlock (&queue_taken->lock);
  do
    n_written = write (queue_taken->fd, &one, sizeof one);
  while (n_written < 0 && errno == EINTR);
  tps_python_queue_unref (queue_taken);
}

/* The descriptor must be emptied before the tokens are taken. Then a token that another thread adds
 * in between makes it readable again. If tokens remain, the descriptor is made readable at the
 * end. */
guint
tps_python_queue_take (TpsPythonQueue *queue, guint64 *tokens, guint n_max)
{
  guint64 n_events;
  gboolean are_more;
  guint n = 0;

  if (read (queue->fd, &n_events, sizeof n_events) < 0 && errno != EAGAIN && errno != EINTR)
    return 0;
  pthread_mutex_lock (&queue->lock);
  while (n < n_max && !g_queue_is_empty (&queue->tokens))
    {
      g_autofree guint64 *token = g_queue_pop_head (&queue->tokens);

      tokens[n++] = *token;
    }
  are_more = !g_queue_is_empty (&queue->tokens);
  pthread_mutex_unlock (&queue->lock);
  n_events = 1;
  if (are_more && write (queue->fd, &n_events, sizeof n_events) < 0)
    g_assert (errno == EAGAIN); /* the descriptor is readable already */
  return n;
}
