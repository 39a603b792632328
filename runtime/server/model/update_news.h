/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What observers of a model server are told, in the order in which it happened. Internal to this
 * folder.
 *
 * News is noted under the server's lock and told outside it: while one thread tells, others leave
 * theirs to it.
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

void tps_update_news_init (TpsUpdateNews *news, const TpsModelServerOptions *options);
void tps_update_news_clear (TpsUpdateNews *news);

/* A trainer has come to a round where `n_before` were. */
void tps_update_news_add_arrival (TpsUpdateNews *news, guint n_before);
void tps_update_news_add_update (TpsUpdateNews *news, gint64 version, guint n_took_part);

/* Not under a lock. Thread: any. */
void tps_update_news_tell (TpsUpdateNews *news);

G_END_DECLS
