/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reports for the observers of a model server, in the order of the events. Internal to this folder.
 *
 * Events are added under the server's lock and reported without the lock. While one thread reports,
 * it also reports the events of other threads.
 */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/server/model/model_server.h"

G_BEGIN_DECLS

typedef struct
{
  const TpsModelServerOptions *options; /* borrowed: the observers */
  TpsMutex lock;                        /* guards everything below; taken under the server's lock */
  GQueue waiting;                       /* of Item, see the .c file */
  gboolean is_telling;
} TpsUpdateNews;

/* Initialise and clear `news` in the caller's storage. `options` is borrowed until clear(), which
 * drops events that have not been reported. */
void tps_update_news_init (TpsUpdateNews *news, const TpsModelServerOptions *options);
void tps_update_news_clear (TpsUpdateNews *news);

/* Adds the event that a trainer has come to a round that had `n_before` trainers. */
void tps_update_news_add_arrival (TpsUpdateNews *news, guint n_before);
/* Adds the event that the model has a new version, made from the gradients of `n_took_part`
 * trainers. */
void tps_update_news_add_update (TpsUpdateNews *news, gint64 version, guint n_took_part);

/* Reports all waiting events, unless a different thread does. No lock may be held. Thread: any. */
void tps_update_news_tell (TpsUpdateNews *news);

G_END_DECLS
