/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The other end of an encrypted connection, for tls_fuzz.c: OpenSSL over a socket, which can leave
 * the protocol at any point and then seal records of any content with the right keys.
 *
 * The random numbers of OpenSSL come from a fixed sequence, so that a run can be repeated. Thread:
 * one.
 */

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
  TLS_FUZZ_UNSEALED, /* records that are not encrypted; the others are thrown away */
} TlsFuzzForward;

typedef struct
{
  gint fd;
  SSL *ssl;
  gboolean is_tls_1_2; /* of which no secret is known */
  TlsFuzzSecret handshake, application;
  const guint8 *damage; /* of the bytes that OpenSSL sends; borrowed */
  gsize n_damage;
  gsize n_sent; /* bytes of OpenSSL so far */
} TlsFuzzPeer;

/* Makes the random generator of OpenSSL repeat itself from here on. */
void tls_fuzz_fix_dice (void);

/* A certificate for "fuzz" that has issued itself, with its key, as PEM; always the same. Returns a
 * file in memory. */
gint tls_fuzz_new_certificate (void);

/* `path` names the certificate, always the same. `fd` stays the caller's, and must not block. */
void tls_fuzz_peer_init (TlsFuzzPeer *peer, gint fd, const gchar *path, gboolean is_server,
                         gboolean is_tls_1_2);
void tls_fuzz_peer_clear (TlsFuzzPeer *peer);

/* OpenSSL takes the received bytes and answers. Byte OFFSET of all that it sends is changed by XOR
 * where `damage` has OFFSET (two bytes, big endian) and XOR. */
void tls_fuzz_peer_step (TlsFuzzPeer *peer, TlsFuzzForward forward);

/* Bytes as they are. */
void tls_fuzz_peer_send (const TlsFuzzPeer *peer, const guint8 *bytes, gsize n_bytes);

/* One record under the last known secret; without one, `content` as it is. Not after OpenSSL has
 * sent records under the same secret. */
void tls_fuzz_peer_seal (TlsFuzzPeer *peer, guint8 type, const guint8 *content, gsize n_bytes);

/* Discards the received bytes. */
void tls_fuzz_peer_drain (const TlsFuzzPeer *peer);

G_END_DECLS
