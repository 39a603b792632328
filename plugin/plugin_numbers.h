/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The metrics of the parts of a plugin, computed when they are read. See "Metrics" in
 * OPERATING.md. */

#pragma once

#include "plugin/service/chunks/chunk_service.h"
#include "plugin/service/rendezvous_service.h"
#include "runtime/server/model/model_server.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

/* The parts of a plugin; all borrowed. `tables`, `model` and `rendezvous` are NULL if the plugin
 * does not have the part. */
typedef struct
{
  TpsWorkerPool *workers;
  TpsTableStore *tables;
  TpsModelServer *model;
  TpsRendezvous *rendezvous;
  TpsChunks *chunks;
} TpsPluginParts;

/* Adds the metrics to `reading`. A TpsCollect; `user_data` is a TpsPluginParts. */
void tps_plugin_numbers_collect (TpsReading *reading, gpointer user_data);

G_END_DECLS
