/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/model/update_news.h"

typedef struct
{
  gboolean is_update; /* TRUE: a new version; FALSE: an arrival */
  guint n_before;     /* of an arrival */
  gint64 version;     /* of an update, as is `n_took_part` */
  guint n_took_part;
} Item;

void
tps_update_news_init (TpsUpdateNews *news, const TpsModelServerOptions *options)
{
  *news = (TpsUpdateNews) { .options = options };
  g_queue_init (&news->waiting);
  tps_mutex_init (&news->lock);
}

void
tps_update_news_clear (TpsUpdateNews *news)
{
  g_queue_clear_full (&news->waiting, g_free);
  tps_mutex_clear (&news->lock);
}

static void
add (TpsUpdateNews *news, const Item *item)
{
  tps_mutex_lock (&news->lock);
  g_queue_push_tail (&news->waiting, g_memdup2 (item, sizeof *item));
  tps_mutex_unlock (&news->lock);
}

void
tps_update_news_add_arrival (TpsUpdateNews *news, guint n_before)
{
  if (news->options->got_update != NULL)
    add (news, &(Item) { .n_before = n_before });
}

void
tps_update_news_add_update (TpsUpdateNews *news, gint64 version, guint n_took_part)
{
  if (news->options->updated_model != NULL)
    add (news, &(Item) { .is_update = TRUE, .version = version, .n_took_part = n_took_part });
}

static void
tell_one (const TpsModelServerOptions *options, const Item *item)
{
  if (item->is_update && options->updated_model != NULL)
    options->updated_model (options->user_data, item->version, item->n_took_part);
  else if (!item->is_update && options->got_update != NULL)
    options->got_update (options->user_data, item->n_before, options->n_trainers);
}

/* One thread reports at a time, so that the observers get the events in order. The lock is released
 * during each report. */
void
tps_update_news_tell (TpsUpdateNews *news)
{
  const TpsModelServerOptions *options = news->options;
  Item *item;

  if (options->got_update == NULL && options->updated_model == NULL)
    return;
  tps_mutex_lock (&news->lock);
  while (!news->is_telling && (item = g_queue_pop_head (&news->waiting)) != NULL)
    {
      news->is_telling = TRUE;
      tps_mutex_unlock (&news->lock);
      tell_one (options, item);
      g_free (item);
      tps_mutex_lock (&news->lock);
      news->is_telling = FALSE;
    }
  tps_mutex_unlock (&news->lock);
}
