/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How a trainer reaches the parameter servers, the embedding tables and the rendezvous of its plan:
 * over Thrift. */

#pragma once

#include "plugin/net/tls/tls.h"
#include "runtime/trainer/pass/trainer.h"

G_BEGIN_DECLS

/* All borrowed; each may be NULL. */
typedef struct
{
  const gchar *master; /* the rendezvous of plans that name none */
  TpsTls *tls;         /* encrypts TCP connections to servers and to the rendezvous */
  const gchar *token;  /* for these connections; borrowed; NULL = none */
} TpsTrainerReach;

/* `reach` is borrowed and must outlive the trainer; NULL = nothing of it. */
TpsTrainerLinks tps_trainer_links (const TpsTrainerReach *reach);

G_END_DECLS
