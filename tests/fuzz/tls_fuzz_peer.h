/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The other end of an encrypted connection, for tls_fuzz.c: OpenSSL over a socket. It can leave the
 * protocol at any point, and then seal records of any content with the right keys.
 *
 * OpenSSL's random numbers come from a fixed sequence, so a run can be repeated. Thread: one. */

#pragma once

#include <openssl/ssl.h>

#include <glib.h>

G_BEGIN_DECLS

#define TLS_FUZZ_SECRET_BYTES 32

/* The traffic secret of one epoch, and the number of records sealed with it. */
typedef struct
{
  guint8 bytes[TLS_FUZZ_SECRET_BYTES];
  gboolean is_known;
  guint64 n_sealed;
} TlsFuzzSecret;

typedef enum
{
  TLS_FUZZ_ALL,
  TLS_FUZZ_UNSEALED, /* only records that are not encrypted; others are dropped */
} TlsFuzzForward;

typedef struct
{
  gint fd;
  SSL *ssl;
  gboolean is_tls_1_2; /* in TLS 1.2 no secret is known */
  TlsFuzzSecret handshake, application;
  const guint8 *damage; /* changes to the bytes that OpenSSL sends; borrowed */
  gsize n_damage;
  gsize n_sent; /* bytes that OpenSSL has sent so far */
} TlsFuzzPeer;

/* From now on, OpenSSL's random numbers start the same sequence again. */
void tls_fuzz_fix_dice (void);

/* Makes a self-signed certificate for "fuzz" with its key, as PEM. It is always the same. Returns
 * the descriptor of a file in memory. */
gint tls_fuzz_new_certificate (void);

/* `path` names the certificate, which must always be the same. The caller keeps `fd`, which must
 * not block. */
void tls_fuzz_peer_init (TlsFuzzPeer *peer, gint fd, const gchar *path, gboolean is_server,
                         gboolean is_tls_1_2);
void tls_fuzz_peer_clear (TlsFuzzPeer *peer);

/* Passes the received bytes to OpenSSL and sends its reply. `damage` consists of entries OFFSET
 * (two bytes, big-endian) and XOR. Each entry changes byte OFFSET of everything that OpenSSL sends,
 * by XOR. */
void tls_fuzz_peer_step (TlsFuzzPeer *peer, TlsFuzzForward forward);

/* Sends the bytes without a record. */
void tls_fuzz_peer_send (const TlsFuzzPeer *peer, const guint8 *bytes, gsize n_bytes);

/* Sends one record under the last known secret. If no secret is known, sends `content` without a
 * record. It must not be called after OpenSSL has sent records under the same secret. */
void tls_fuzz_peer_seal (TlsFuzzPeer *peer, guint8 type, const guint8 *content, gsize n_bytes);

/* Discards the received bytes. */
void tls_fuzz_peer_drain (const TlsFuzzPeer *peer);

G_END_DECLS
