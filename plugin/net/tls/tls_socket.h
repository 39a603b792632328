/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The socket of an encrypted connection as a BIO. Unlike OpenSSL's own BIO for sockets, it raises
 * no SIGPIPE and does not read again from a socket that was empty. Private to plugin/net/tls.
 */

#pragma once

#include <openssl/bio.h>

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  /* The last receive returned fewer bytes than requested, so the BIO does not read the socket
   * again. The caller must set it to FALSE when the socket may be read. */
  gboolean is_empty;
  gboolean has_ended;     /* the peer sends no more */
  gboolean has_more;      /* set by the caller: more bytes follow, and the kernel may wait */
  gboolean holds_back;    /* the kernel holds the last bytes back */
  gint code;              /* errno of a failure; 0 = none */
  gboolean sends_control; /* the kernel encrypts, and the next bytes are a control message */
} TpsTlsSocket;

/* Creates a BIO on `fd`, which the caller still owns. `peer` is borrowed and must outlive the BIO.
 * The caller owns the result. Returns NULL if there is no memory. */
BIO *tps_tls_socket_new_bio (TpsTlsSocket *peer, gint fd);

/* Makes the kernel send the bytes that it holds back (MSG_MORE). */
void tps_tls_socket_flush (BIO *bio);

G_END_DECLS
