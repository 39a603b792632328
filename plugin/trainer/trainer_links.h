/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Implements the connections of a trainer over Thrift: to the parameter servers, the embedding
 * tables and the rendezvous of its plan. */

#pragma once

#include <thriftps/access.h>

#include "runtime/trainer/pass/trainer.h"

G_BEGIN_DECLS

/* The options of the connections. All fields are borrowed; each may be NULL. */
typedef struct
{
  const gchar *master; /* address of the rendezvous, for plans that name none */
  TpsTls *tls;         /* encrypts TCP connections to servers and to the rendezvous */
  const gchar *token;  /* token for these connections */
} TpsTrainerReach;

/* Returns the functions with which a trainer connects. `reach` is borrowed and must outlive the
 * trainer; NULL = no master, no encryption and no token. Thread: any. */
TpsTrainerLinks tps_trainer_links (const TpsTrainerReach *reach);

G_END_DECLS
