/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_running.h"

#include "runtime/base/error.h"
#include "runtime/server/push_digest.h"

typedef struct
{
  TpsPushEnded ended;
  gpointer user_data;
  TpsPushDigest digest;
} Waiter;

/* ---- the list -------------------------------------------------------------------------------- */

static TpsRunningPush *
get_items (TpsRunningPushes *pushes)
{
  return pushes->many != NULL ? &g_array_index (pushes->many, TpsRunningPush, 0) : &pushes->one;
}

void
tps_running_pushes_add (TpsRunningPushes *pushes, const TpsRunningPush *push)
{
  if (pushes->n == 1 && pushes->many == NULL)
    {
      pushes->many = g_array_new (FALSE, FALSE, sizeof *push);
      g_array_append_val (pushes->many, pushes->one);
    }
  if (pushes->many != NULL)
    g_array_append_vals (pushes->many, push, 1);
  else
    pushes->one = *push;
  pushes->n++;
}

TpsRunningPush *
tps_running_pushes_find (TpsRunningPushes *pushes, gint64 sequence)
{
  TpsRunningPush *items = get_items (pushes);

  for (guint i = 0; i < pushes->n; i++)
    if (items[i].sequence == sequence)
      return &items[i];
  return NULL;
}

TpsRunningPush
tps_running_pushes_take (TpsRunningPushes *pushes, gint64 sequence)
{
  TpsRunningPush *push = tps_running_pushes_find (pushes, sequence);
  TpsRunningPush taken = *push;

  if (pushes->many != NULL)
    g_array_remove_index_fast (pushes->many, (guint) (push - get_items (pushes)));
  if (--pushes->n == 0)
    g_clear_pointer (&pushes->many, g_array_unref);
  return taken;
}

/* ---- waiters --------------------------------------------------------------------------------- */

void
tps_running_push_add_waiter (TpsRunningPush *push, const TpsPushRequest *request)
{
  Waiter waiter = { request->ended, request->user_data, *request->digest };

  if (push->waiters == NULL)
    push->waiters = g_array_new (FALSE, FALSE, sizeof waiter);
  g_array_append_val (push->waiters, waiter);
}

void
tps_running_push_tell (const TpsRunningPush *push, const gchar *client, gint64 answer,
                       const GError *error)
{
  if (push->waiters == NULL)
    return;
  for (guint i = 0; i < push->waiters->len; i++)
    {
      const Waiter *waiter = &g_array_index (push->waiters, Waiter, i);
      g_autoptr (GError) other = NULL;

      if (error == NULL && !tps_push_digest_is_same (&waiter->digest, &push->digest))
        other = tps_push_new_duplicate_error (client, push->sequence);
      waiter->ended (waiter->user_data, answer, error != NULL ? error : other);
    }
  g_array_unref (push->waiters);
}

GError *
tps_push_new_duplicate_error (const gchar *client, gint64 sequence)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_DUPLICATE,
                      "push %" G_GINT64_FORMAT " of client %s was already used for another request",
                      sequence, client);
}
