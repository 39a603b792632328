/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The part of a running pass that other threads may use. They must not access any other part of the
 * pass. Internal to this folder.
 *
 * Order of locks: links_lock, then the locks taken by cancelling an exchange or a group. `lock` is
 * a leaf.
 */

#pragma once

#include "runtime/trainer/pass/pass.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

struct TpsPassControl
{
  TpsTrainerLinks links;
  TpsStore *store; /* used by the training thread until all trainers have joined */

  TpsMutex links_lock; /* keeps the links alive while they are cancelled */
  TpsExchange *exchange;
  TpsProcessGroup *group;
  TpsTableClient *tables;
  TpsModelClient *model_client;

  TpsMutex lock;
  gboolean is_cancelled;
  gint64 steps_done;
  gint64 steps_total;
  gint64 heartbeat;
  gint64 alive_until_ns; /* the training thread's current wait ends by then */
  gboolean has_loss;
  gdouble loss;
  gboolean has_digest;
  guint8 digest[16];
  gint64 samples;
  gint64 epoch_samples;
};

/* Creates the control of one pass, owned by the caller. Copies `links`. */
TpsPassControl *tps_pass_control_new (const TpsTrainerLinks *links, const TpsTrainPlan *plan);
void tps_pass_control_free (TpsPassControl *control);

/* -- connections of a pass (pass_links.c) -- */

/* Cancels all connections, which ends waits for other processes. Thread: any. */
void tps_pass_cancel_links (TpsPass *pass);

/* Closes all connections, which releases gradient memory. */
void tps_pass_disconnect (TpsPass *pass);

/* Closes the store. On rank 0, first removes the group's keys from it. All trainers must have
 * joined. */
void tps_pass_leave_store (TpsPass *pass);

G_END_DECLS
