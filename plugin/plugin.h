/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The part of TpsPlugin (thriftps/plugin.h) that is not public, for HTTP and the programs. */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/access/access.h"
#include "plugin/server/server.h"
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

/* Return the parts of the plugin; all borrowed. The first three are NULL if their service is not
 * served. Thread: any. */
TpsParameterServer *tps_plugin_get_parameter_server (TpsPlugin *plugin);
TpsModelServer *tps_plugin_get_model_server (TpsPlugin *plugin);
TpsTableStore *tps_plugin_get_tables (TpsPlugin *plugin);
TpsWorkerPool *tps_plugin_get_workers (TpsPlugin *plugin);
TpsDurable *tps_plugin_get_durable (TpsPlugin *plugin); /* NULL without a data directory */
TpsMetrics *tps_plugin_get_metrics (TpsPlugin *plugin);
const gchar *tps_plugin_get_name (TpsPlugin *plugin);
const gchar *const *tps_plugin_get_device_names (TpsPlugin *plugin); /* ended by NULL */
const TpsBudgets *tps_plugin_get_budgets (TpsPlugin *plugin);

/* Returns the tenants of the plugin's callers and tables; borrowed. The rules of `access` set their
 * limits, and servers of tps_plugin_new_server() enforce the limits. Thread: any. */
TpsQuotas *tps_plugin_get_quotas (TpsPlugin *plugin);

/* Returns the services; borrowed until the next tps_plugin_add_service(). */
const TpsService *tps_plugin_get_services (TpsPlugin *plugin, guint *n_services);

G_END_DECLS
