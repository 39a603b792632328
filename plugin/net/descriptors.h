/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* File descriptors in messages over a Unix socket, and the end of those that no one expects.
 *
 * Closing such a descriptor may block for as long as the peer likes: the close of a TCP socket with
 * SO_LINGER waits for the acknowledgement of unsent bytes. If a thread receives a message without
 * room for its descriptors, or closes a socket whose buffer contains such a message, the kernel
 * closes the descriptors in that thread. Event loops must therefore do neither:
 *
 *   - On Linux 6.16 and later, the kernel refuses the peer's sendmsg() (SO_PASSRIGHTS), so no
 *     descriptors need to be closed.
 *   - On earlier versions, all descriptors are received. A separate thread closes them, and closes
 *     the sockets of Unix connections.
 */

#pragma once

#include <glib.h>
#include <sys/socket.h>

G_BEGIN_DECLS

/* The maximum number of descriptors in one message (SCM_MAX_FD in the kernel). */
#define TPS_DESCRIPTORS_MAX 253

/* Room for the descriptors of one message, with the alignment that the kernel requires. It suffices
 * for every message. Otherwise, the kernel would close the remaining descriptors in the receiving
 * thread. */
typedef union
{
  struct cmsghdr header;
  guint8 bytes[CMSG_SPACE (TPS_DESCRIPTORS_MAX * sizeof (gint))];
} TpsDescriptorRoom;

/* Copies received descriptors to `fds` [TPS_DESCRIPTORS_MAX]. Returns their number. Thread: any. */
gsize tps_descriptors_list (struct msghdr *message, gint *fds);

/* Attaches a descriptor to a message; `room` must live until it is sent. Thread: any. */
void tps_descriptors_attach (gint fd, struct msghdr *message, TpsDescriptorRoom *room);

/* Makes the kernel refuse descriptors that are sent to `fd`; accepted sockets inherit this option
 * from the listening socket. Returns FALSE if `fd` is a Unix socket and this kernel cannot refuse
 * descriptors, and TRUE otherwise. Thread: any. */
gboolean tps_descriptors_refuse (gint fd);

/* Closes `n` descriptors of a peer on a separate thread, without lingering. Takes ownership of the
 * descriptors, but not of the array. Does not block, unless that thread cannot be created: the
 * descriptors are then closed in place. Thread: any. */
void tps_descriptors_discard (const gint *fds, gsize n);

/* Closes a connected socket. If its buffer may contain descriptors, the separate thread discards
 * these descriptors and then closes the socket. Blocks only as tps_descriptors_discard() does.
 * Thread: any. */
void tps_descriptors_close_socket (gint fd);

G_END_DECLS
