/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The service manager that has started the program: systemd or any manager with the same protocol.
 * The program receives sockets from it, and sends messages to it (supervision.h). Without a
 * manager, the functions do nothing. Thread: one at a time. */

#pragma once

#include "plugin/plugin.h"

G_BEGIN_DECLS

/* ---- messages ------------------------------------------------------------------------------- */

/* Messages to a service manager by the protocol of sd_notify(3): datagrams of "NAME=VALUE" lines to
 * the Unix socket that the environment variable NOTIFY_SOCKET names. A NULL notifier is valid and
 * sends nothing. */
typedef struct TpsNotifier TpsNotifier;

/* Creates a notifier. `address` must be an absolute path, or "@NAME" for an abstract socket. The
 * caller owns the result. Errors: INVALID_ARGUMENT (any other text), RESOURCE_EXHAUSTED (no
 * socket). */
TpsNotifier *tps_notifier_new (const gchar *address, GError **error);
void tps_notifier_free (TpsNotifier *notifier);

/* Sends a message without waiting. FALSE: it was not accepted; a later one may be. */
gboolean tps_notifier_send (TpsNotifier *notifier, const gchar *message);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsNotifier, tps_notifier_free)

/* ---- sockets -------------------------------------------------------------------------------- */

/* The sockets that systemd has passed to the program, according to the environment variables
 * LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES of sd_listen_fds(3). */

#define TPS_PASSED_SOCKETS_FIRST 3 /* the first descriptor */
#define TPS_PASSED_SOCKETS_MAX 1024

typedef struct
{
  guint n;     /* number of descriptors, which begin at TPS_PASSED_SOCKETS_FIRST */
  GStrv names; /* [n], the names of the socket units; NULL = there are no names */
} TpsPassedSockets;

/* Parses the values of the three variables, which may be NULL. `pid` is the id of this process. If
 * the variables are for a different process, there are no sockets. The caller must clear `sockets`.
 * Errors: INVALID_ARGUMENT, which names the variable. Thread: any. */
gboolean tps_passed_sockets_parse (const gchar *listen_pid, const gchar *listen_fds,
                                   const gchar *listen_names, gint64 pid, TpsPassedSockets *sockets,
                                   GError **error);
void tps_passed_sockets_clear (TpsPassedSockets *sockets);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsPassedSockets, tps_passed_sockets_clear)

/* ---- service manager ------------------------------------------------------------------------ */

typedef struct TpsServiceManager TpsServiceManager;

/* Reads the variables of the service manager from the environment, and removes them. Must be called
 * before other threads are started. The caller owns the result. Errors: INVALID_ARGUMENT, which
 * names the variable; RESOURCE_EXHAUSTED (no socket). */
TpsServiceManager *tps_service_manager_new (GError **error);
void tps_service_manager_free (TpsServiceManager *manager);

/* Returns the number of sockets from the manager; the server must listen on them. */
guint tps_service_manager_get_n_sockets (const TpsServiceManager *manager);

/* Passes all sockets to `server`. Errors: those of tps_server_take_socket(), with the name. */
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
