/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/limits/shared_memory.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

typedef union
{
  struct cmsghdr header;
  gchar bytes[CMSG_SPACE (sizeof (gint))];
} Control;

static struct msghdr
make_message (struct iovec *piece, Control *control)
{
  memset (control, 0, sizeof *control);
  return (struct msghdr) {
    .msg_iov = piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof *control
  };
}

static gboolean
send_descriptor (gint fd, gint sent)
{
  gchar byte = 0;
  struct iovec piece = { &byte, 1 };
  Control control;
  struct msghdr message = make_message (&piece, &control);

  control.header = (struct cmsghdr) { .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS,
                                      .cmsg_len = CMSG_LEN (sizeof sent) };
  memcpy (CMSG_DATA (&control.header), &sent, sizeof sent);
  return sendmsg (fd, &message, MSG_NOSIGNAL) == 1;
}

/* Returns the received descriptor; -1 on failure. */
static gint
receive_descriptor (gint fd)
{
  gchar byte;
  struct iovec piece = { &byte, 1 };
  Control control;
  struct msghdr message = make_message (&piece, &control);
  gint received = -1;

  if (recvmsg (fd, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR (&message) != NULL)
    memcpy (&received, CMSG_DATA (&control.header), sizeof received);
  return received;
}

/* Maps the memory. The kernel allocates pages at their first use. */
static gboolean
map (TpsTransferSharedMemory *memory, gsize n_bytes, gint fd)
{
  void *data = mmap (NULL, 2 * n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

  if (data == MAP_FAILED)
    return FALSE;
  memory->requests = data;
  memory->answers = memory->requests + n_bytes;
  memory->n_bytes = n_bytes;
  return TRUE;
}

gboolean
tps_transfer_shared_memory_offer (TpsTransferSharedMemory *memory, gsize n_bytes, gint fd)
{
  gint file = memfd_create ("raw", MFD_CLOEXEC);
  gboolean done = file >= 0 && ftruncate (file, (off_t) (2 * n_bytes)) == 0
                  && map (memory, n_bytes, file) && send_descriptor (fd, file);

  if (file >= 0)
    close (file);
  return done;
}

gboolean
tps_transfer_shared_memory_accept (TpsTransferSharedMemory *memory, gsize n_bytes, gint fd)
{
  gint file = receive_descriptor (fd);
  gboolean done = file >= 0 && map (memory, n_bytes, file);

  if (file >= 0)
    close (file);
  return done;
}

void
tps_transfer_shared_memory_clear (TpsTransferSharedMemory *memory)
{
  if (memory->requests != NULL)
    munmap (memory->requests, 2 * memory->n_bytes);
  *memory = (TpsTransferSharedMemory) { 0 };
}
