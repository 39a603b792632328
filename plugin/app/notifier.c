/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/notifier.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/base/error.h"

struct TpsNotifier
{
  gint fd;
  struct sockaddr_un manager;
  socklen_t n_bytes; /* length of `manager`; abstract names have no terminator */
};

/* The address of an abstract socket begins with a zero byte, which is written as "@". */
static gboolean
fill_address (const gchar *address, struct sockaddr_un *un, socklen_t *n_bytes)
{
  gsize n_text = strlen (address);

  if ((address[0] != '/' && address[0] != '@') || n_text < 2 || n_text >= sizeof un->sun_path)
    return FALSE;
  un->sun_family = AF_UNIX;
  memcpy (un->sun_path, address, n_text);
  if (address[0] == '@')
    un->sun_path[0] = '\0';
  else
    n_text++; /* a path ends with a zero byte */
  *n_bytes = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + n_text);
  return TRUE;
}

TpsNotifier *
tps_notifier_new (const gchar *address, GError **error)
{
  g_autoptr (TpsNotifier) notifier = g_new0 (TpsNotifier, 1);

  notifier->fd = -1;
  if (!fill_address (address, &notifier->manager, &notifier->n_bytes))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "NOTIFY_SOCKET=%s: expected an absolute path or @NAME of at most 107 bytes",
                   address);
      return NULL;
    }
  notifier->fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (notifier->fd < 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "NOTIFY_SOCKET=%s: no socket: %s", address, g_strerror (errno));
      return NULL;
    }
  return g_steal_pointer (&notifier);
}

void
tps_notifier_free (TpsNotifier *notifier)
{
  if (notifier == NULL)
    return;
  if (notifier->fd >= 0)
    close (notifier->fd);
  g_free (notifier);
}

gboolean
tps_notifier_send (TpsNotifier *notifier, const gchar *message)
{
  return notifier == NULL
         || sendto (notifier->fd, message, strlen (message), MSG_NOSIGNAL,
                    (const struct sockaddr *) &notifier->manager, notifier->n_bytes)
                >= 0;
}
