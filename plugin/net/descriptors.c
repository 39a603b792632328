/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The closing thread starts with the first descriptor, and runs until the process exits. A peer may
 * block it (a file system in user space can delay any close). Further descriptors then wait, up to
 * the limit of the process. */

#include "plugin/net/descriptors.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/sync.h"
#include "runtime/base/thread.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16; not in older headers */
#endif

typedef struct
{
  gint fd;
  gboolean is_connection; /* its buffer may contain descriptors */
} Item;

static TpsMutex lock = TPS_MUTEX_INIT;
static pthread_cond_t added = PTHREAD_COND_INITIALIZER;
static GArray *items; /* of Item, guarded by the lock; NULL = the thread has not been started */

/* ---- descriptors in messages ---------------------------------------------------------------- */

gsize
tps_descriptors_list (struct msghdr *message, gint *fds)
{
  gsize n = 0;

  for (struct cmsghdr *at = CMSG_FIRSTHDR (message); at != NULL; at = CMSG_NXTHDR (message, at))
    if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS)
      for (gsize i = 0; CMSG_LEN ((i + 1) * sizeof *fds) <= at->cmsg_len; i++)
        memcpy (&fds[n++], CMSG_DATA (at) + i * sizeof *fds, sizeof *fds);
  return n;
}

void
tps_descriptors_attach (gint fd, struct msghdr *message, TpsDescriptorRoom *room)
{
  memset (room, 0, CMSG_SPACE (sizeof fd));
  message->msg_control = room;
  message->msg_controllen = CMSG_SPACE (sizeof fd);
  room->header.cmsg_level = SOL_SOCKET;
  room->header.cmsg_type = SCM_RIGHTS;
  room->header.cmsg_len = CMSG_LEN (sizeof fd);
  memcpy (CMSG_DATA (&room->header), &fd, sizeof fd);
}

/* ---- closing thread ------------------------------------------------------------------------- */

/* Closes a descriptor. SO_LINGER is switched off first: otherwise, the close of a socket could wait
 * for its unsent bytes. Switching it off fails for other files, which is harmless. */
static void
close_discarded (gint fd)
{
  struct linger off = { 0 };

  setsockopt (fd, SOL_SOCKET, SO_LINGER, &off, sizeof off);
  close (fd);
}

static void
close_received (struct msghdr *message)
{
  gint fds[TPS_DESCRIPTORS_MAX];
  gsize n = tps_descriptors_list (message, fds);

  for (gsize i = 0; i < n; i++)
    close_discarded (fds[i]);
}

/* Closes all descriptors in the buffer of a connection. The loop ends, because nothing is added to
 * the buffer after shutdown(). */
static void
drain_connection (gint fd)
{
  guint8 bytes[4096];
  struct iovec piece = { bytes, sizeof bytes };
  TpsDescriptorRoom room;
  gssize n_bytes;

  shutdown (fd, SHUT_RDWR);
  do
    {
      struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room
      };

      n_bytes = recvmsg (fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
      if (n_bytes >= 0)
        close_received (&message);
    }
  while (n_bytes > 0 || (n_bytes < 0 && errno == EINTR));
}

static void *
run (void *unused)
{
  for (;;)
    {
      g_autoptr (GArray) taken = NULL;

      tps_mutex_lock (&lock);
      while (items->len == 0)
        tps_cond_wait (&added, &lock);
      taken = items;
      items = g_array_new (FALSE, FALSE, sizeof (Item));
      tps_mutex_unlock (&lock);
      for (guint i = 0; i < taken->len; i++)
        {
          const Item *item = &g_array_index (taken, Item, i);

          if (item->is_connection)
            drain_connection (item->fd);
          close_discarded (item->fd);
        }
    }
  return NULL;
}

/* Starts the closing thread, if it is not running. Returns FALSE if the process cannot start a
 * thread. Must be called with the lock held. */
static gboolean
ensure_thread (void)
{
  if (items != NULL)
    return TRUE;
  items = g_array_new (FALSE, FALSE, sizeof (Item));
  if (tps_thread_start_detached ("tps-close", run, NULL, NULL))
    return TRUE;
  g_clear_pointer (&items, g_array_unref);
  return FALSE;
}

static void
add (const Item *item)
{
  gboolean added_it;

  tps_mutex_lock (&lock);
  added_it = ensure_thread ();
  if (added_it)
    {
      g_array_append_val (items, *item);
      tps_cond_signal (&added);
    }
  tps_mutex_unlock (&lock);
  if (!added_it)
    close_discarded (item->fd);
}

/* ---- functions for event loops -------------------------------------------------------------- */

static gboolean
is_unix (gint fd)
{
  gint family = 0;
  socklen_t n_bytes = sizeof family;

  return getsockopt (fd, SOL_SOCKET, SO_DOMAIN, &family, &n_bytes) == 0 && family == AF_UNIX;
}

gboolean
tps_descriptors_refuse (gint fd)
{
  gint off = 0;

  return setsockopt (fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off) == 0 || !is_unix (fd);
}

void
tps_descriptors_discard (const gint *fds, gsize n)
{
  for (gsize i = 0; i < n; i++)
    add (&(Item) { .fd = fds[i] });
}

void
tps_descriptors_close_socket (gint fd)
{
  gint passes = 1;
  socklen_t n_bytes = sizeof passes;

  if ((getsockopt (fd, SOL_SOCKET, SO_PASSRIGHTS, &passes, &n_bytes) == 0 && !passes)
      || !is_unix (fd))
    close (fd);
  else
    add (&(Item) { .fd = fd, .is_connection = TRUE });
}
