/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* File descriptors that a peer sends over a Unix socket though nobody has asked for them.
 *
 * To close such a descriptor may block its closer for as long as the peer likes: the close of a TCP
 * socket with SO_LINGER waits for the acknowledgement of unsent bytes. The kernel closes
 * descriptors in the thread that receives their message without room for them, or that closes a
 * socket with such a message in its buffer. So event loops must do neither:
 *
 *   - Linux 6.16 and later refuses the peer's sendmsg() (SO_PASSRIGHTS), and everything else here
 *     is idle;
 *   - before, all descriptors are received, and a thread of its own closes them and the sockets of
 *     Unix connections.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* As many as one message carries (SCM_MAX_FD in the kernel). */
#define TPS_DESCRIPTORS_MAX 253

/* Makes the kernel refuse descriptors that are sent to `fd`; a listening socket hands that on to
 * accepted ones. FALSE: this kernel cannot refuse them, and `fd` is a Unix socket. TRUE for other
 * sockets. Thread: any. */
gboolean tps_descriptors_refuse (gint fd);

/* Closes `n` descriptors that came from a peer, on a thread of its own, without lingering. Never
 * blocks. Thread: any. */
void tps_descriptors_discard (const gint *fds, gsize n);

/* Closes a connected socket. Never blocks: if its buffer may hold descriptors, another thread
 * discards these first. Thread: any. */
void tps_descriptors_close_socket (gint fd);

G_END_DECLS
