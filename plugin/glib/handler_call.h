/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call of a generated handler, sent to the plugin as a message, and its reply. The code that
 * handlers.py generates uses these functions as follows:
 *
 *   tps_handler_call_begin (&call, iface, "add");
 *   tps_handler_call_put_string (&call, 1, key);           each argument, in the order of the IDL
 *   client = tps_handler_call_run (&call, TPS_WIRE_TYPE_RENDEZVOUS_CLIENT);
 *   if (client != NULL)
 *     tps_wire_rendezvous_client_recv_add (client, _return, failure, &call.error);
 *   return tps_handler_call_end (&call, failure, error);
 *
 * A string, binary or struct that is NULL is omitted, and so is a push id without a client, because
 * generated processors pass these values for arguments that the peer did not send. Thread: any, but
 * all functions of one call must run on the same thread.
 */

#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>
#include <thrift/c_glib/thrift_struct.h>

#include "plugin/host/library.h"
#include "plugin/host/processor.h"

#include "tps_wire_node_types.h"
#include "tps_wire_tensor_types.h"

typedef struct
{
  TpsProcessor *processor;  /* borrowed; NULL = the handler has no processor */
  ThriftProtocol *protocol; /* writes the request, then reads the reply */
  GObject *client;          /* generated: reads the result from `protocol` */
  GError *error;
} TpsHandlerCall;

/* Begins a call of `method`. tps_handler_call_end() must follow. */
void tps_handler_call_begin (TpsHandlerCall *call, gpointer handler, const gchar *method);

/* Add the argument with the field number `id`. Pointers are borrowed until the end of the call. */
void tps_handler_call_put_bool (TpsHandlerCall *call, gint16 id, gboolean value);
void tps_handler_call_put_i32 (TpsHandlerCall *call, gint16 id, gint32 value);
void tps_handler_call_put_i64 (TpsHandlerCall *call, gint16 id, gint64 value);
void tps_handler_call_put_string (TpsHandlerCall *call, gint16 id, const gchar *value);
void tps_handler_call_put_binary (TpsHandlerCall *call, gint16 id, const GByteArray *value);
void tps_handler_call_put_struct (TpsHandlerCall *call, gint16 id, gconstpointer value);
void tps_handler_call_put_push (TpsHandlerCall *call, gint16 id, const TpsWirePushId *value);
void tps_handler_call_put_i64s (TpsHandlerCall *call, gint16 id, const GArray *values);
void tps_handler_call_put_strings (TpsHandlerCall *call, gint16 id, const GPtrArray *values);
void tps_handler_call_put_texts (TpsHandlerCall *call, gint16 id, const GHashTable *values);
void tps_handler_call_put_structs (TpsHandlerCall *call, gint16 id, const GPtrArray *values);

/* Runs the call in the plugin and waits for the reply. Returns a client of `client_type` that reads
 * the reply, borrowed until the end of the call. On failure, sets call->error and returns NULL. */
gpointer tps_handler_call_run (TpsHandlerCall *call, GType client_type);

/* Ends the call. Returns TRUE if the result has been read. Otherwise sets either `failure`, which
 * the caller owns, or `error`, and returns FALSE. */
gboolean tps_handler_call_end (TpsHandlerCall *call, TpsWireServiceError **failure, GError **error);

/* Prepare a result for generated readers: the list is emptied or created; the struct is replaced by
 * a new one. */
void tps_handler_reset_list (GPtrArray **list);
void tps_handler_reset_struct (gpointer *object, GType type);

/* Set and return the processor to which a handler sends its calls. set() takes a reference; the
 * result of get() is borrowed; NULL = no processor. */
void tps_handler_set_processor (gpointer handler, ThriftProcessor *processor);
TpsProcessor *tps_handler_get_processor (gpointer handler);

/* A service of the IDL, with the types of its handler and of its generated processor. */
typedef struct
{
  const gchar *name;
  TpsGetType get_handler_type;
  TpsGetType get_processor_type;
} TpsHandlerService;

/* All services of the IDL, ended by a NULL name, and all generated types that are objects. */
extern const TpsHandlerService tps_handler_services[];
extern const TpsGetType tps_handler_wire_types[];
extern const guint tps_handler_n_wire_types;
