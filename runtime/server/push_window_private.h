/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The structures of a push window. Internal to push_window.c and push_export.c. */

#pragma once

#include "runtime/base/slab.h"
#include "runtime/base/sync.h"
#include "runtime/server/push_floor.h"
#include "runtime/server/push_running.h"
#include "runtime/server/push_window.h"

G_BEGIN_DECLS

/* A push that was applied. Millions of these may be remembered, so fields that only running pushes
 * need are in TpsRunningPush. */
typedef struct
{
  gint64 sequence;
  gint64 answer;
  gint64 lsn;
  TpsPushDigest digest;
} TpsRememberedPush;

#define TPS_PUSH_FEW 8         /* remembered pushes in the struct of a client */
#define TPS_PUSH_SHORT_NAME 40 /* bytes, including the terminator */

/* A client with a window, in a slab. Most clients need no memory outside this struct, because their
 * names are short and they have few pushes. */
typedef struct
{
  gchar *name;       /* `short_name`, or allocated */
  GList link;        /* in `recent` */
  GList export_link; /* in sides[side] */
  TpsExportSide side;
  TpsRememberedPush *pushes; /* [n_pushes], by ascending sequence */
  guint n_pushes, capacity;  /* of `pushes`, which is `few` or allocated */
  TpsRunningPushes running;
  TpsPushFloor floor;     /* covers the forgotten pushes */
  gboolean is_floor_kept; /* `floors` has the same floor: no push has been applied since */
  gint64 last_lsn;        /* the highest LSN of all applied pushes */
  gsize n_bytes;          /* the charge */
  gchar short_name[TPS_PUSH_SHORT_NAME];
  TpsRememberedPush few[TPS_PUSH_FEW];
} TpsPushClient;

struct TpsPushWindow
{
  TpsPushWindowOptions options;
  TpsMutex lock;       /* guards everything below; must not be held during callbacks */
  GHashTable *clients; /* by name */
  GQueue recent;       /* of TpsPushClient, least recently used first */
  GQueue sides[2];     /* of TpsPushClient */
  TpsSlab records;     /* of TpsPushClient */
  TpsBudget *floor_budget;
  TpsPushFloors *floors;
  gsize n_remembered;
};

/* Adds a client that has the floor `floor` and no pushes. `floors` may keep the same floor. NULL:
 * there is no room. The lock must be held. */
TpsPushClient *tps_push_window_add_client (TpsPushWindow *window, const gchar *name,
                                           const TpsPushFloor *floor, TpsExportSide side);

/* Makes room for `n` pushes of the client in total. FALSE: there is no room. The lock must be
 * held. */
gboolean tps_push_client_reserve (TpsPushWindow *window, TpsPushClient *client, guint n);

G_END_DECLS
