/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The part of TpsPlugin (thriftps/plugin.h) that is not public, for HTTP and the programs. */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/access/access.h"
#include "plugin/memory/common_segments.h"
#include "plugin/server/server.h"
#include "plugin/service/chunks/chunk_service.h"
#include "plugin/service/embedding_table_service.h"
#include "plugin/service/node_service.h"
#include "plugin/service/parameter_server_service.h"
#include "plugin/service/rendezvous_service.h"
#include "runtime/base/metrics.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/averaging/parameter_server.h"
#include "runtime/server/durable/durable.h"
#include "runtime/server/model/model_server.h"
#include "runtime/server/quota/quotas.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

/* Parts that the creator of a plugin may provide; all may be NULL. */
struct TpsPluginParts
{
  TpsMetrics *metrics;  /* a reference is taken; NULL = the plugin's own */
  TpsDevice *device;    /* instead of the option `device` */
  TpsFaultPlan *faults; /* injected into the disk of the data directory; borrowed */
  /* See TpsModelServerOptions. */
  void (*got_update) (gpointer user_data, guint n_before, guint n_trainers);
  void (*updated_model) (gpointer user_data, gint64 version, guint n_took_part);
};

/* Read-only for others. */
struct TpsPlugin
{
  guint serves; /* bits of Serves */
  gchar *name;
  TpsBudgets *budgets;
  TpsWorkerPool *workers;
  TpsQuotas *quotas;
  void (*recovered) (gpointer user_data, const GError *error); /* may be NULL */
  gpointer user_data;
  TpsDurable *durable;     /* NULL = nothing is durable */
  TpsSequencer *sequencer; /* orders the commands of tables and the model */
  TpsMetrics *metrics;
  TpsAccess *access;                     /* a reference; NULL = everyone may call everything */
  TpsCommonSegments *common_segments;    /* of averages and models; NULL = there are none */
  TpsParameterServers parameter_servers; /* owned */
  TpsTableStore *tables;
  TpsEmbeddingTables *embedding; /* the EmbeddingTable service over `tables` */
  TpsRendezvous *rendezvous;
  TpsChunks *chunks;   /* can run a call of any service, on any server */
  guint collectors[3]; /* ids of the collectors of metrics; 0 = none */
  TpsNode node;
  GPtrArray *service_names;  /* for `node`: borrowed strings, ended by NULL */
  GArray *services;          /* of TpsService */
  TpsServiceHooks lasting;   /* of services whose state is durable */
  TpsDevice *device;         /* on which gradients are added up; NULL = in host memory */
  TpsTablePlace table_place; /* of tables that specify none */
  TpsDevice *table_device;   /* of `table_place`; NULL = the CPU */
  GPtrArray *device_names;   /* for `node`: borrowed strings, ended by NULL */
};

/* Returns the services; borrowed until the next tps_plugin_add_service(). */
const TpsService *tps_plugin_get_services (TpsPlugin *plugin, guint *n_services);

G_END_DECLS
