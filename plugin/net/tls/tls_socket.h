/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The socket of an encrypted connection, as OpenSSL sees it: a BIO like its own for sockets,
 * which raises no SIGPIPE and asks an empty socket only once. Inside plugin/net/tls only.
 */

#pragma once

#include <openssl/bio.h>

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  /* The last receive returned fewer bytes than requested. The user of the BIO sets it to FALSE. */
  gboolean is_empty;
  gboolean has_ended;     /* the peer sends no more */
  gboolean has_more;      /* its user sends more at once: the kernel may keep bytes back */
  gboolean holds_back;    /* the kernel keeps the last bytes back */
  gint code;              /* errno of a failure; 0 = none */
  gboolean sends_control; /* the kernel encrypts, and the next bytes are no data */
} TpsTlsSocket;

/* Over `fd`, which stays the caller's; `peer` is borrowed. NULL: no memory. */
BIO *tps_tls_socket_new_bio (TpsTlsSocket *peer, gint fd);

/* Makes the kernel send the bytes that it holds back. */
void tps_tls_socket_flush (BIO *bio);

G_END_DECLS
