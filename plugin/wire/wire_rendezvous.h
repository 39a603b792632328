/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/rendezvous.thrift: the methods as TpsRpcs (rpc.h), with their arguments and results. */

#pragma once

#include "plugin/wire/rpc.h"
#include "plugin/wire/wire_tensor.h"

G_BEGIN_DECLS

/* The arguments of put, get, add and remove; each method uses its own fields, and the others stay
 * zero. */
typedef struct
{
  gchar *key;        /* remove: the prefix */
  GBytes *value;     /* put; a writer borrows it until it releases it */
  gint32 timeout_ms; /* get, >= 0 */
  gint64 amount;     /* add */
  TpsPushId push;    /* add; client NULL = no push id */
} TpsRendezvousArguments;

/* Frees the members. */
void tps_rendezvous_arguments_clear (TpsRendezvousArguments *arguments);

extern const TpsRpc tps_rendezvous_put_rpc;
extern const TpsRpc tps_rendezvous_get_rpc; /* -> GBytes *, a new reference; a writer borrows it */
extern const TpsRpc tps_rendezvous_add_rpc; /* -> gint64 */
extern const TpsRpc tps_rendezvous_remove_rpc;

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsRendezvousArguments, tps_rendezvous_arguments_clear)

G_END_DECLS
