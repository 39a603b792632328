/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/python/native/python_call.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- queues of ended calls ------------------------------------------------------------------ */

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

static void
queue_unref (TpsPythonQueue *queue)
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
    queue_unref (queue);
}

/* Adds the `token` of an ended call. Takes over a reference to the queue. */
static void
queue_put (TpsPythonQueue *queue_taken, guint64 token)
{
  guint64 one = 1;
  gssize n_written;

  pthread_mutex_lock (&queue_taken->lock);
  g_queue_push_tail (&queue_taken->tokens, g_memdup2 (&token, sizeof token));
  pthread_mutex_unlock (&queue_taken->lock);
  do
    n_written = write (queue_taken->fd, &one, sizeof one);
  while (n_written < 0 && errno == EINTR);
  queue_unref (queue_taken);
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

/* ---- calls ---------------------------------------------------------------------------------- */

TpsPythonCall *
tps_python_call_new (void)
{
  TpsPythonCall *call = g_new0 (TpsPythonCall, 1);
  pthread_condattr_t monotonic;

  call->reply.retry_after_ms = -1;
  call->references = 2; /* tps_python_call_end() releases the second one */
  pthread_mutex_init (&call->lock, NULL);
  pthread_condattr_init (&monotonic);
  pthread_condattr_setclock (&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init (&call->ended, &monotonic);
  pthread_condattr_destroy (&monotonic);
  return call;
}

/* The condition is signalled after the lock is released. Otherwise, the waiting thread would wake
 * up and have to wait for the lock. Python may free the call in between, so this function has a
 * separate reference. */
void
tps_python_call_end (TpsPythonCall *call, const GError *error)
{
  TpsPythonQueue *queue;
  guint64 token;

  if (error != NULL)
    {
      TpsPythonReply *reply = &call->reply;
      gboolean is_ours = error->domain == TPS_ERROR;

      call->error = g_error_copy (error);
      reply->code = is_ours ? error->code : TPS_ERROR_INTERNAL;
      reply->message = call->error->message;
      reply->retry_after_ms = is_ours ? tps_error_get_retry_after_ms (error) : -1;
    }
  pthread_mutex_lock (&call->lock);
  call->has_ended = TRUE;
  queue = g_steal_pointer (&call->queue);
  token = call->token;
  pthread_mutex_unlock (&call->lock);
  pthread_cond_broadcast (&call->ended);
  if (queue != NULL)
    queue_put (queue, token);
  tps_python_call_free (call);
}

TpsPythonCall *
tps_python_call_new_ended (GError *error_taken)
{
  TpsPythonCall *call = tps_python_call_new ();
  g_autoptr (GError) error = error_taken;

  tps_python_call_end (call, error);
  return call;
}

const TpsPythonReply *
tps_python_call_wait (TpsPythonCall *call, gint64 timeout_ns)
{
  gint64 deadline_ns = timeout_ns > 0 ? tps_python_deadline (timeout_ns) : 0;
  struct timespec until = { deadline_ns / 1000000000, deadline_ns % 1000000000 };
  gboolean has_ended;

  pthread_mutex_lock (&call->lock);
  while (!call->has_ended && timeout_ns > 0
         && pthread_cond_timedwait (&call->ended, &call->lock, &until) == 0)
    ;
  has_ended = call->has_ended;
  pthread_mutex_unlock (&call->lock);
  return has_ended ? &call->reply : NULL;
}

void
tps_python_call_notify (TpsPythonCall *call, TpsPythonQueue *queue, guint64 token)
{
  TpsPythonQueue *former = NULL;
  gboolean has_ended;

  g_atomic_int_inc (&queue->references);
  pthread_mutex_lock (&call->lock);
  has_ended = call->has_ended;
  if (!has_ended)
    {
      former = call->queue;
      call->queue = queue;
      call->token = token;
    }
  pthread_mutex_unlock (&call->lock);
  if (has_ended)
    queue_put (queue, token);
  if (former != NULL)
    queue_unref (former);
}

void
tps_python_call_free (TpsPythonCall *call)
{
  if (!g_atomic_int_dec_and_test (&call->references))
    return;
  for (guint i = 0; i < call->reply.n_tensors; i++)
    tps_tensor_clear (&call->tensors[i]);
  g_free (call->tensors);
  g_free (call->reply.tensors);
  g_strfreev (call->names);
  g_free (call->text);
  g_clear_pointer (&call->bytes, g_bytes_unref);
  g_clear_error (&call->error);
  pthread_cond_destroy (&call->ended);
  pthread_mutex_destroy (&call->lock);
  g_free (call);
}

void
tps_python_call_take_tensors (TpsPythonCall *call, TpsTensor *tensors, guint n)
{
  call->tensors = g_new0 (TpsTensor, n);
  call->reply.tensors = g_new0 (TpsTensorView, n);
  call->reply.n_tensors = n;
  for (guint i = 0; i < n; i++)
    {
      call->tensors[i] = tensors[i];
      tensors[i] = (TpsTensor) { 0 };
      call->reply.tensors[i] = tps_tensor_view (&call->tensors[i]);
    }
}

void
tps_python_call_take_text (TpsPythonCall *call, GString *json_taken)
{
  call->text = g_string_free (json_taken, FALSE);
  call->reply.text = call->text;
}

void
tps_python_call_take_bytes (TpsPythonCall *call, GBytes *bytes_taken)
{
  call->bytes = bytes_taken;
  call->reply.bytes = g_bytes_get_data (bytes_taken, &call->reply.n_bytes);
}

void
tps_python_call_set_model (TpsPythonCall *call, const TpsModelVersion *model)
{
  g_autofree TpsTensor *tensors = g_new0 (TpsTensor, model->n_parameters);

  call->names = g_new0 (gchar *, model->n_parameters + 1);
  for (guint i = 0; i < model->n_parameters; i++)
    {
      call->names[i] = g_strdup (model->parameters[i].name);
      tps_tensor_init_ref (&tensors[i], &model->parameters[i].tensor);
    }
  tps_python_call_take_tensors (call, tensors, model->n_parameters);
  call->reply.names = call->names;
  call->reply.number = model->version;
}

gint64
tps_python_deadline (gint64 timeout_ns)
{
  gint64 now_ns = g_get_monotonic_time () * 1000;

  return timeout_ns < G_MAXINT64 - now_ns ? now_ns + timeout_ns : G_MAXINT64;
}
