/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The service manager that has started the program: systemd or any manager with the same protocol.
 * The program receives sockets from it (passed_sockets.h), and sends messages to it
 * (supervision.h). Without a manager, the functions do nothing. Thread: one at a time. */

#pragma once

#include "plugin/plugin.h"

G_BEGIN_DECLS

typedef struct TpsServiceManager TpsServiceManager;

/* Reads the variables of the service manager from the environment, and removes them. Must be called
 * before other threads are started. The caller owns the result. Errors: INVALID_ARGUMENT, which
 * names the variable; RESOURCE_EXHAUSTED (no socket). */
TpsServiceManager *tps_service_manager_new (GError **error);

/* Frees the manager, which may be NULL. */
void tps_service_manager_free (TpsServiceManager *manager);

/* Returns the number of sockets from the manager; the server must listen on them. */
guint tps_service_manager_get_n_sockets (const TpsServiceManager *manager);

/* Passes all sockets from the manager to `server`. Errors: those of tps_server_take_socket(), with
 * the name of the socket. */
gboolean tps_service_manager_give_sockets (TpsServiceManager *manager, TpsServer *server,
                                           GError **error);

/* Begins the messages, which report the state of `server` and `plugin`. Both are borrowed until
 * the first call of tps_service_manager_stop(). Must be called after the server has started. */
void tps_service_manager_begin (TpsServiceManager *manager, TpsServer *server, TpsPlugin *plugin);

/* Sends the messages that are due. Must be called about four times a second. */
void tps_service_manager_turn (TpsServiceManager *manager);

/* Report the begin and the end of a reload of files. */
void tps_service_manager_begin_reload (TpsServiceManager *manager);
void tps_service_manager_end_reload (TpsServiceManager *manager);

/* Reports that the server stops. No other function may be called afterwards, except this one, which
 * tries again if the manager has not accepted the message. */
void tps_service_manager_stop (TpsServiceManager *manager);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsServiceManager, tps_service_manager_free)

G_END_DECLS
