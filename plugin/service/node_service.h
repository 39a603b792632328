/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Node service: the identity and the state of this process. */

#pragma once

#include <thriftps/access.h>

#include "plugin/access/access.h"
#include "plugin/service/call.h"
#include "runtime/base/metrics.h"
#include "runtime/server/durable/durable.h"

G_BEGIN_DECLS

/* All fields are borrowed and must not change while the service is served. */
typedef struct
{
  const gchar *name;            /* "server2" */
  gint64 max_frame_bytes;       /* 0 = not reported */
  const gchar *const *services; /* ended by NULL; NULL = not reported */
  const gchar *const *devices;  /* as `services` */
  TpsMetrics *metrics;          /* NULL = no metrics */
  /* Sets the bytes of embedding tables and their limit. NULL = there are no tables. Thread: any. */
  void (*get_table_bytes) (gpointer tables, gint64 *held, gint64 *max);
  gpointer tables;
  /* Forgets push ids: as tps_push_window_forget(), in all push windows. Thread: any. */
  guint (*forget_push_clients) (gpointer plugin, const gchar *tenant, gint64 idle_ns);
  gpointer plugin;
  TpsDurable *durable; /* NULL = the server has no data directory */
  TpsTls *tls;         /* NULL = the server does not encrypt */
  TpsAccess *access;   /* NULL = the server has neither rules nor tokens */
} TpsNode;

/* Returns the service for a dispatcher. It borrows `node`. */
TpsService tps_node_service (TpsNode *node);

G_END_DECLS
