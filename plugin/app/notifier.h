/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Messages to a service manager by the protocol of sd_notify(3): datagrams of "NAME=VALUE" lines to
 * the Unix socket that the environment variable NOTIFY_SOCKET names. A NULL notifier is valid and
 * sends nothing. Thread: one at a time.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsNotifier TpsNotifier;

/* Creates a notifier. `address` must be an absolute path, or "@NAME" for an abstract socket. The
 * caller owns the result. Errors: INVALID_ARGUMENT (any other text), RESOURCE_EXHAUSTED (no
 * socket). */
TpsNotifier *tps_notifier_new (const gchar *address, GError **error);

/* Frees the notifier, which may be NULL. */
void tps_notifier_free (TpsNotifier *notifier);

/* Sends one message, without waiting. FALSE: the manager did not accept the message; it may accept
 * a later one. */
gboolean tps_notifier_send (TpsNotifier *notifier, const gchar *message);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsNotifier, tps_notifier_free)

G_END_DECLS
