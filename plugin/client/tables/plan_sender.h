/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A lookup plan, sent: what lookups and the pushes of maxima have in common. */

#pragma once

#include "plugin/client/tables/lookup_plan.h"
#include "plugin/client/tables/servers.h"

G_BEGIN_DECLS

/* `error` is NULL when all answers are in the plan; borrowed. On an I/O thread. */
typedef void (*TpsPlanAnswered) (gpointer user_data, const GError *error);

/* `plan` is borrowed until `answered`. */
void tps_lookup_plan_send (TpsLookupPlan *plan, TpsServers *servers, gint64 deadline_ns,
                           TpsPlanAnswered answered, gpointer user_data);

G_END_DECLS
