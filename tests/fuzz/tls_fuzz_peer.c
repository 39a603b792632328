/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The deprecated functions are the only way to replace libssl's random generator without a
 * provider. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "tests/fuzz/tls_fuzz_peer.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#define RECORD_HEADER 5
#define RECORD_MAX 0xffff
#define APPLICATION_DATA 0x17
#define HANDSHAKE 0x16
#define TAG_BYTES 16
#define NONCE_BYTES 12
#define KEY_BYTES 16
#define KEY_UPDATE 0x18
#define KEY_UPDATE_BYTES 5
#define CHUNK_BYTES 16384

static void
check (gboolean claim)
{
  if (!claim)
    abort ();
}

/* ---- random numbers ------------------------------------------------------------------------- */

static guint64 dice;

/* Returns the next byte of SplitMix64. */
static guint8
throw_dice (void)
{
  guint64 z = (dice += 0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (guint8) (z ^ (z >> 31));
}

static int
give_bytes (unsigned char *bytes, int n_bytes)
{
  for (int i = 0; i < n_bytes; i++)
    bytes[i] = throw_dice ();
  return 1;
}

static int
is_seeded (void)
{
  return 1;
}

void
tls_fuzz_fix_dice (void)
{
  static const RAND_METHOD method = { .bytes = give_bytes,
                                      .pseudorand = give_bytes,
                                      .status = is_seeded };

  dice = 1;
  check (RAND_set_rand_method (&method) == 1);
}

/* ---- the certificate ------------------------------------------------------------------------ */

static X509 *
new_certificate (EVP_PKEY *key)
{
  X509 *certificate = X509_new ();
  X509_NAME *name = X509_get_subject_name (certificate);
  X509_EXTENSION *names = X509V3_EXT_conf_nid (NULL, NULL, NID_subject_alt_name, "DNS:fuzz");

  X509_set_version (certificate, X509_VERSION_3);
  ASN1_INTEGER_set (X509_get_serialNumber (certificate), 1);
  ASN1_TIME_set_string (X509_getm_notBefore (certificate), "20200101000000Z");
  ASN1_TIME_set_string (X509_getm_notAfter (certificate), "22000101000000Z");
  X509_NAME_add_entry_by_txt (name, "CN", MBSTRING_ASC, (const guchar *) "fuzz", -1, -1, 0);
  X509_set_issuer_name (certificate, name);
  X509_set_pubkey (certificate, key);
  X509_add_ext (certificate, names, -1);
  X509_EXTENSION_free (names);
  check (X509_sign (certificate, key, EVP_sha256 ()) > 0);
  return certificate;
}

gint
tls_fuzz_new_certificate (void)
{
  gint fd = memfd_create ("certificate", MFD_CLOEXEC);
  EVP_PKEY *key = EVP_EC_gen ("P-256");
  X509 *certificate = new_certificate (key);
  BIO *file = BIO_new_fd (fd, BIO_NOCLOSE);

  check (fd >= 0 && PEM_write_bio_X509 (file, certificate) == 1
         && PEM_write_bio_PrivateKey (file, key, NULL, NULL, 0, NULL, NULL) == 1);
  BIO_free (file);
  X509_free (certificate);
  EVP_PKEY_free (key);
  return fd;
}

/* ---- secrets -------------------------------------------------------------------------------- */

/* Computes HKDF-Expand-Label of RFC 8446 with SHA-256 and without a context, for at most 32
 * bytes. */
static void
expand_label (const guint8 *secret, const gchar *label, guint8 *out, gsize n_bytes)
{
  guint8 info[64] = { 0, (guint8) n_bytes, (guint8) (6 + strlen (label)) };
  guint8 block[EVP_MAX_MD_SIZE];
  gsize n_info = 3;

  n_info += g_strlcpy ((gchar *) info + n_info, "tls13 ", sizeof info - n_info);
  n_info += g_strlcpy ((gchar *) info + n_info, label, sizeof info - n_info);
  info[n_info++] = 0; /* no context */
  info[n_info++] = 1; /* the first block */
  check (HMAC (EVP_sha256 (), secret, TLS_FUZZ_SECRET_BYTES, info, n_info, block, NULL) != NULL);
  memcpy (out, block, n_bytes);
}

/* Takes the secret from a line "LABEL RANDOM SECRET", in hexadecimal digits. */
static void
take_secret (TlsFuzzSecret *secret, const gchar *line, const gchar *label)
{
  const gchar *digits = strrchr (line, ' ') + 1;

  if (!g_str_has_prefix (line, label) || strlen (digits) != 2 * sizeof secret->bytes)
    return;
  for (gsize i = 0; i < sizeof secret->bytes; i++)
    secret->bytes[i] = (guint8) (g_ascii_xdigit_value (digits[2 * i]) << 4
                                 | g_ascii_xdigit_value (digits[2 * i + 1]));
  secret->is_known = TRUE;
}

static void
note_secret (const SSL *ssl, const char *line)
{
  TlsFuzzPeer *peer = SSL_get_app_data (ssl);
  gboolean is_server = SSL_is_server (ssl);

  take_secret (&peer->handshake, line,
               is_server ? "SERVER_HANDSHAKE_TRAFFIC_SECRET " : "CLIENT_HANDSHAKE_TRAFFIC_SECRET ");
  take_secret (&peer->application, line,
               is_server ? "SERVER_TRAFFIC_SECRET_0 " : "CLIENT_TRAFFIC_SECRET_0 ");
}

/* ---- start and end -------------------------------------------------------------------------- */

static SSL_CTX *
new_context (const gchar *path, gboolean is_tls_1_2)
{
  SSL_CTX *context = SSL_CTX_new (TLS_method ());

  if (is_tls_1_2)
    SSL_CTX_set_max_proto_version (context, TLS1_2_VERSION);
  SSL_CTX_set_ciphersuites (context, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_num_tickets (context, 0);
  SSL_CTX_set_session_cache_mode (context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_keylog_callback (context, note_secret);
  check (SSL_CTX_use_certificate_chain_file (context, path) == 1
         && SSL_CTX_use_PrivateKey_file (context, path, SSL_FILETYPE_PEM) == 1);
  return context;
}

void
tls_fuzz_peer_init (TlsFuzzPeer *peer, gint fd, const gchar *path, gboolean is_server,
                    gboolean is_tls_1_2)
{
  static SSL_CTX *contexts[2];

  if (contexts[is_tls_1_2] == NULL)
    contexts[is_tls_1_2] = new_context (path, is_tls_1_2);
  *peer = (TlsFuzzPeer) { .fd = fd,
                          .is_tls_1_2 = is_tls_1_2,
                          .ssl = SSL_new (contexts[is_tls_1_2]) };
  SSL_set_app_data (peer->ssl, peer);
  SSL_set_bio (peer->ssl, BIO_new (BIO_s_mem ()), BIO_new (BIO_s_mem ()));
  if (is_server)
    SSL_set_accept_state (peer->ssl);
  else
    SSL_set_connect_state (peer->ssl);
}

void
tls_fuzz_peer_clear (TlsFuzzPeer *peer)
{
  SSL_free (peer->ssl);
}

/* ---- sending -------------------------------------------------------------------------------- */

/* Bytes that do not fit into the socket are lost, as in a broken connection. */
void
tls_fuzz_peer_send (const TlsFuzzPeer *peer, const guint8 *bytes, gsize n_bytes)
{
  if (n_bytes > 0)
    (void) !send (peer->fd, bytes, n_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
put_damage (TlsFuzzPeer *peer, guint8 *bytes, gsize n_bytes)
{
  for (gsize i = 0; i + 3 <= peer->n_damage; i += 3)
    {
      gsize at = (gsize) peer->damage[i] << 8 | peer->damage[i + 1];

      if (at >= peer->n_sent && at - peer->n_sent < n_bytes)
        bytes[at - peer->n_sent] ^= peer->damage[i + 2];
    }
  peer->n_sent += n_bytes;
}

static void
forward_flight (TlsFuzzPeer *peer, guint8 *bytes, gsize n_bytes, TlsFuzzForward forward)
{
  for (gsize at = 0; at + RECORD_HEADER <= n_bytes;)
    {
      gsize n = RECORD_HEADER + ((gsize) bytes[at + 3] << 8 | bytes[at + 4]);
      gboolean is_sealed = bytes[at] == APPLICATION_DATA;

      check (n <= n_bytes - at);
      if (forward == TLS_FUZZ_ALL || !is_sealed)
        {
          put_damage (peer, bytes + at, n);
          tls_fuzz_peer_send (peer, bytes + at, n);
        }
      at += n;
    }
}

void
tls_fuzz_peer_step (TlsFuzzPeer *peer, TlsFuzzForward forward)
{
  BIO *out = SSL_get_wbio (peer->ssl);
  guint8 bytes[CHUNK_BYTES];
  guint8 *flight;
  long n_flight;
  gssize n;

  while ((n = recv (peer->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
    BIO_write (SSL_get_rbio (peer->ssl), bytes, (int) n);
  SSL_do_handshake (peer->ssl);
  n_flight = BIO_get_mem_data (out, &flight);
  forward_flight (peer, flight, (gsize) n_flight, forward);
  (void) BIO_reset (out);
}

void
tls_fuzz_peer_drain (const TlsFuzzPeer *peer)
{
  guint8 bytes[CHUNK_BYTES];

  while (recv (peer->fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
    continue;
}

/* ---- sealing -------------------------------------------------------------------------------- */

/* Encrypts `n_bytes` of `plain` with AES-128-GCM. The header of the record is the additional
 * data. */
static void
seal (const TlsFuzzSecret *secret, guint8 *record, const guint8 *plain, gsize n_bytes)
{
  EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new ();
  guint8 key[KEY_BYTES], nonce[NONCE_BYTES];
  int n;

  expand_label (secret->bytes, "key", key, sizeof key);
  expand_label (secret->bytes, "iv", nonce, sizeof nonce);
  for (guint i = 0; i < 8; i++)
    nonce[NONCE_BYTES - 1 - i] ^= (guint8) (secret->n_sealed >> (8 * i));
  check (EVP_EncryptInit_ex (cipher, EVP_aes_128_gcm (), NULL, key, nonce) == 1
         && EVP_EncryptUpdate (cipher, NULL, &n, record, RECORD_HEADER) == 1
         && EVP_EncryptUpdate (cipher, record + RECORD_HEADER, &n, plain, (int) n_bytes) == 1
         && EVP_EncryptFinal_ex (cipher, record + RECORD_HEADER + n, &n) == 1
         && EVP_CIPHER_CTX_ctrl (cipher, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES,
                                 record + RECORD_HEADER + n_bytes)
                == 1);
  EVP_CIPHER_CTX_free (cipher);
}

/* If this side has sealed a key update, replaces the secret by the next one. */
static void
follow_key_update (TlsFuzzSecret *secret, guint8 type, const guint8 *content, gsize n_bytes)
{
  static const guint8 head[] = { KEY_UPDATE, 0, 0, 1 };

  if (type != HANDSHAKE || n_bytes != KEY_UPDATE_BYTES || memcmp (content, head, sizeof head) != 0)
    return;
  expand_label (secret->bytes, "traffic upd", secret->bytes, sizeof secret->bytes);
  secret->n_sealed = 0;
}

void
tls_fuzz_peer_seal (TlsFuzzPeer *peer, guint8 type, const guint8 *content, gsize n_bytes)
{
  TlsFuzzSecret *secret = SSL_is_init_finished (peer->ssl) ? &peer->application : &peer->handshake;
  gsize n_sealed = n_bytes + 1 + TAG_BYTES;
  g_autofree guint8 *plain = g_malloc (n_bytes + 1);
  g_autofree guint8 *record = g_malloc (RECORD_HEADER + n_sealed);

  if (!secret->is_known || n_sealed > RECORD_MAX)
    {
      tls_fuzz_peer_send (peer, content, n_bytes);
      return;
    }
  if (n_bytes > 0)
    memcpy (plain, content, n_bytes);
  plain[n_bytes] = type;
  memcpy (record, "\x17\x03\x03", 3);
  record[3] = (guint8) (n_sealed >> 8);
  record[4] = (guint8) n_sealed;
  seal (secret, record, plain, n_bytes + 1);
  secret->n_sealed++;
  follow_key_update (secret, type, content, n_bytes);
  tls_fuzz_peer_send (peer, record, RECORD_HEADER + n_sealed);
}
