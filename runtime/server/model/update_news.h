/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reports for the observers of a model server, in the order of the events. Internal to this folder.
 *
 * News is noted under the server's lock and reported outside it. While one thread reports, other
 * threads leave their news to it.
 */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/server/model/model_server.h"

G_BEGIN_DECLS

typedef struct
{
  const TpsModelServerOptions *options; /* borrowed: the observers */
  TpsMutex lock;                        /* guards everything below; taken under the server's */
  GQueue waiting;                       /* of News */
  gboolean is_telling;
} TpsUpdateNews;

/* `options` is borrowed until clear(), which drops news that has not been reported. */
void tps_update_news_init (TpsUpdateNews *news, const TpsModelServerOptions *options);
void tps_update_news_clear (TpsUpdateNews *news);

/* A trainer has come to a round that had `n_before` trainers. */
void tps_update_news_add_arrival (TpsUpdateNews *news, guint n_before);
/* The model has a new version, made from the gradients of `n_took_part` trainers. */
void tps_update_news_add_update (TpsUpdateNews *news, gint64 version, guint n_took_part);

/* No lock may be held. Thread: any. */
void tps_update_news_tell (TpsUpdateNews *news);

G_END_DECLS
