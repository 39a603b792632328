/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The service manager that has started the program, systemd or another with its protocol: sockets
 * from it (passed_sockets.h), and messages to it (supervision.h). Without a manager the functions
 * do nothing. Thread: one at a time.
 */

#pragma once

#include "plugin/plugin.h"

G_BEGIN_DECLS

typedef struct TpsServiceManager TpsServiceManager;

/* Reads the environment, and takes its variables out of it. Before other threads are there. The
 * caller's. Errors: INVALID_ARGUMENT, naming the variable. */
TpsServiceManager *tps_service_manager_new (GError **error);

/* NULL is fine. */
void tps_service_manager_free (TpsServiceManager *manager);

/* Whether the program was started by a manager that takes messages. */
gboolean tps_service_manager_is_there (const TpsServiceManager *manager);

/* Sockets that the server is to listen on. */
guint tps_service_manager_get_n_sockets (const TpsServiceManager *manager);

/* Gives all of them to `server`. Errors: those of tps_server_take_socket(), naming the socket. */
gboolean tps_service_manager_give_sockets (TpsServiceManager *manager, TpsServer *server,
                                           GError **error);

/* From now on messages report the state of `server` and `plugin`, which are borrowed until
 * tps_service_manager_stop(). After the server has started. */
void tps_service_manager_begin (TpsServiceManager *manager, TpsServer *server, TpsPlugin *plugin);

/* Sends messages that are due. Must be called about four times a second. */
void tps_service_manager_turn (TpsServiceManager *manager);

/* Around a reload of files. */
void tps_service_manager_begin_reload (TpsServiceManager *manager);
void tps_service_manager_end_reload (TpsServiceManager *manager);

/* The server stops. */
void tps_service_manager_stop (TpsServiceManager *manager);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsServiceManager, tps_service_manager_free)

G_END_DECLS
