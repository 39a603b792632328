/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/rendezvous.thrift: arguments and results, named as in wire_parameter_server.h. */

#pragma once

#include "plugin/wire/wire_tensor.h"

G_BEGIN_DECLS

/* One struct for put, get, add and remove; each method uses its own fields, the others stay zero. */
typedef struct
{
  gchar *key;        /* remove: the prefix */
  GBytes *value;     /* put */
  gint32 timeout_ms; /* get, >= 0 */
  gint64 amount;     /* add */
  TpsPushId push;    /* add; client NULL = not given */
} TpsRendezvousArguments;

void tps_rendezvous_arguments_clear (TpsRendezvousArguments *arguments);

gboolean tps_rendezvous_put_arguments_decode (TpsReader *in, TpsRendezvousArguments *arguments,
                                              GError **error);
gboolean tps_rendezvous_get_arguments_decode (TpsReader *in, TpsRendezvousArguments *arguments,
                                              GError **error);
gboolean tps_rendezvous_add_arguments_decode (TpsReader *in, TpsRendezvousArguments *arguments,
                                              GError **error);
gboolean tps_rendezvous_remove_arguments_decode (TpsReader *in, TpsRendezvousArguments *arguments,
                                                 GError **error);

/* `data`: const TpsRendezvousArguments *. The value of a put is borrowed until the writer lets go of it. */
void tps_rendezvous_put_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_rendezvous_get_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_rendezvous_add_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_rendezvous_remove_arguments_encode (TpsWriter *out, gconstpointer data);

/* `value`: GBytes *, borrowed until the writer lets go of it. */
void tps_rendezvous_get_result_encode (TpsWriter *out, gconstpointer value);
/* `value`: GBytes **, a new reference. */
gboolean tps_rendezvous_get_result_decode (TpsReader *in, TpsWireType type, gpointer value,
                                           GError **error);

/* `sum`: const gint64 *, gint64 *. */
void tps_rendezvous_add_result_encode (TpsWriter *out, gconstpointer sum);
gboolean tps_rendezvous_add_result_decode (TpsReader *in, TpsWireType type, gpointer sum,
                                           GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsRendezvousArguments, tps_rendezvous_arguments_clear)

G_END_DECLS
