/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Unexpected file descriptors that a peer sends over a Unix socket.
 *
 * Closing such a descriptor may block for as long as the peer likes: the close of a TCP socket with
 * SO_LINGER waits for the acknowledgement of unsent bytes. The kernel closes descriptors in the
 * thread that receives their message without room for them, and in the thread that closes a socket
 * with such a message in its buffer. Event loops must therefore do neither:
 *
 *   - On Linux 6.16 and later, the kernel refuses the peer's sendmsg() (SO_PASSRIGHTS), and the
 *     other functions here have no work.
 *   - On earlier versions, all descriptors are received, and a separate thread closes them and the
 *     sockets of Unix connections.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The maximum of one message (SCM_MAX_FD in the kernel). */
#define TPS_DESCRIPTORS_MAX 253

/* Makes the kernel refuse descriptors that are sent to `fd`; accepted sockets inherit this from a
 * listening one. Returns FALSE if this kernel cannot refuse them and `fd` is a Unix socket, and
 * TRUE for other sockets. Thread: any. */
gboolean tps_descriptors_refuse (gint fd);

/* Closes `n` descriptors of a peer on a separate thread, without lingering. Never blocks. Thread:
 * any. */
void tps_descriptors_discard (const gint *fds, gsize n);

/* Closes a connected socket. If its buffer may contain descriptors, another thread discards these
 * first. Never blocks. Thread: any. */
void tps_descriptors_close_socket (gint fd);

G_END_DECLS
