/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Metrics of the parts of a plugin, computed when they are read: OPERATING.md, "Metrics". */

#pragma once

#include "plugin/service/chunks/chunk_service.h"
#include "plugin/service/rendezvous_service.h"
#include "runtime/server/model/model_server.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

/* All borrowed; NULL = the plugin does not have the part. */
typedef struct
{
  TpsWorkerPool *workers;
  TpsTableStore *tables;
  TpsModelServer *model;
  TpsRendezvous *rendezvous;
  TpsChunks *chunks;
} TpsPluginParts;

/* A TpsCollect; `user_data` is a TpsPluginParts. */
void tps_plugin_numbers_collect (TpsReading *reading, gpointer user_data);

G_END_DECLS
