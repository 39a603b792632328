/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Control requests go to OpenSSL's own BIO for sockets, which turns on the TLS of the kernel. This
 * BIO has the same fields. When the kernel's TLS is on, control messages and all received bytes
 * also go through OpenSSL's BIO. */

#include "plugin/net/tls/tls_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <openssl/err.h>

#include "runtime/base/sync.h"

/* <openssl/bio.h> contains these two numbers only in comments. */
#define SET_KTLS_SEND_CONTROL 74
#define CLEAR_KTLS_CONTROL 75

static BIO_METHOD *method;
static int socket_index;

static gboolean
is_transient (gint code)
{
  return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

static int
read_bytes (BIO *bio, char *bytes, int n_bytes)
{
  TpsTlsSocket *peer = BIO_get_ex_data (bio, socket_index);
  int fd = (int) BIO_get_fd (bio, NULL);
  gssize n;

  BIO_clear_retry_flags (bio);
  if (peer->is_empty)
    {
      BIO_set_retry_read (bio);
      return -1;
    }
  if (BIO_get_ktls_recv (bio))
    n = BIO_meth_get_read (BIO_s_socket ()) (bio, bytes, n_bytes);
  else
    n = recv (fd, bytes, (gsize) n_bytes, MSG_DONTWAIT);
  peer->is_empty = n < n_bytes;
  if (n == 0)
    peer->has_ended = TRUE;
  else if (n < 0 && is_transient (errno))
    BIO_set_retry_read (bio);
  else if (n < 0)
    peer->code = errno;
  return (int) n;
}

static int
write_bytes (BIO *bio, const char *bytes, int n_bytes)
{
  TpsTlsSocket *peer = BIO_get_ex_data (bio, socket_index);
  int fd = (int) BIO_get_fd (bio, NULL);
  gssize n;

  BIO_clear_retry_flags (bio);
  if (peer->sends_control)
    {
      n = BIO_meth_get_write (BIO_s_socket ()) (bio, bytes, n_bytes);
      peer->sends_control = n < 0;
      return (int) n;
    }
  n = send (fd, bytes, (gsize) n_bytes,
            MSG_DONTWAIT | MSG_NOSIGNAL | (peer->has_more ? MSG_MORE : 0));
  if (n > 0)
    peer->holds_back = peer->has_more;
  else if (n < 0 && is_transient (errno))
    BIO_set_retry_write (bio);
  else if (n < 0)
    peer->code = errno;
  return (int) n;
}

static long
control (BIO *bio, int request, long number, void *pointer)
{
  TpsTlsSocket *peer = BIO_get_ex_data (bio, socket_index);

  if (peer != NULL && request == SET_KTLS_SEND_CONTROL)
    peer->sends_control = TRUE;
  else if (peer != NULL && request == CLEAR_KTLS_CONTROL)
    peer->sends_control = FALSE;
  return BIO_meth_get_ctrl (BIO_s_socket ()) (bio, request, number, pointer);
}

static void
make_method (void)
{
  socket_index = BIO_get_ex_new_index (0, NULL, NULL, NULL, NULL);
  method = BIO_meth_new (BIO_get_new_index () | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR,
                         "socket");
  if (method == NULL)
    return;
  BIO_meth_set_create (method, BIO_meth_get_create (BIO_s_socket ()));
  BIO_meth_set_destroy (method, BIO_meth_get_destroy (BIO_s_socket ()));
  BIO_meth_set_ctrl (method, control);
  BIO_meth_set_read (method, read_bytes);
  BIO_meth_set_write (method, write_bytes);
}

BIO *
tps_tls_socket_new_bio (TpsTlsSocket *peer, gint fd)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  BIO *bio;

  tps_sync_check (pthread_once (&once, make_method));
  bio = method != NULL ? BIO_new (method) : NULL;
  if (bio == NULL)
    return NULL;
  BIO_set_ex_data (bio, socket_index, peer);
  BIO_set_fd (bio, fd, BIO_NOCLOSE);
  return bio;
}

void
tps_tls_socket_flush (BIO *bio)
{
  TpsTlsSocket *peer = BIO_get_ex_data (bio, socket_index);
  int on = 1;

  if (peer->holds_back)
    setsockopt ((int) BIO_get_fd (bio, NULL), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  peer->holds_back = FALSE;
}
