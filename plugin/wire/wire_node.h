/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/node.thrift: the methods as TpsRpcs (rpc.h), with their results. wire_failure.h has the
 * exception of all methods. */

#pragma once

#include "plugin/wire/rpc.h"
#include "plugin/wire/value_kinds.h"
#include "runtime/base/metrics.h"
#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* The state of durability. `phase` has the numbers of the wire, which are those of
 * TpsDurablePhase. */
typedef struct
{
  gint32 phase;
  gint64 lsn, end_lsn;
  gint64 bytes, end_bytes; /* end_bytes: 0 = unknown */
  gboolean has_remaining_ms;
  gint64 remaining_ms;
} TpsDurabilityInfo;

typedef struct
{
  gchar *name;
  gchar *version;
  gint64 max_frame_bytes; /* 0 = unknown */
  gchar **services;       /* NULL = unknown */
  gchar **devices;        /* NULL = unknown */
  gboolean has_table_bytes;
  gint64 table_bytes;         /* memory of the embedding tables */
  gint64 max_table_bytes;     /* 0 = unknown */
  gint64 max_shared_bytes;    /* 0 = no shared memory is offered on this connection */
  gboolean has_shared_device; /* segments may lie in memory of the device with this UUID */
  guint8 shared_device[TPS_DEVICE_UUID_BYTES];
  gboolean has_lookup_device; /* as above, for segments of results of lookups */
  guint8 lookup_device[TPS_DEVICE_UUID_BYTES];
  gboolean has_durability; /* the server has a data directory */
  TpsDurabilityInfo durability;
} TpsNodeInfo;

/* Frees the members. */
void tps_node_info_clear (TpsNodeInfo *info);

extern const TpsRpc tps_describe_rpc; /* -> TpsNodeInfo */

/* gboolean (with samples) -> GPtrArray * of TpsMetricSummary, which frees its elements; created if
 * it is NULL. A writer borrows the samples until it releases them. */
extern const TpsRpc tps_get_metrics_rpc;
extern const TpsRpc tps_clear_metrics_rpc;
extern const TpsRpc tps_reload_certificates_rpc;
extern const TpsRpc tps_reload_access_rpc;
extern const TpsRpc tps_set_log_level_rpc; /* gchar * -> gchar *, both owned after reading */

typedef struct
{
  gchar *tenant; /* "" = callers without a tenant; owned after reading */
  gint64 idle_ms;
} TpsForgetPushClientsArguments;

extern const TpsRpc tps_forget_push_clients_rpc; /* TpsForgetPushClientsArguments -> gint64 */

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsNodeInfo, tps_node_info_clear)

G_END_DECLS
