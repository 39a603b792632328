/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The connections of a trainer to the parameter servers, the embedding tables and the rendezvous of
 * its plan, over Thrift. */

#pragma once

#include "plugin/net/tls/tls.h"
#include "runtime/trainer/pass/trainer.h"

G_BEGIN_DECLS

/* All fields are borrowed; each may be NULL. */
typedef struct
{
  const gchar *master; /* the rendezvous of plans that name none */
  TpsTls *tls;         /* encrypts TCP connections to servers and to the rendezvous */
  const gchar *token;  /* token for these connections */
} TpsTrainerReach;

/* Returns the links. `reach` is borrowed and must outlive the trainer; NULL = no master, encryption
 * or token. */
TpsTrainerLinks tps_trainer_links (const TpsTrainerReach *reach);

G_END_DECLS
