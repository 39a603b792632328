/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/tls/tls.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "runtime/base/error.h"
#include "runtime/base/sized.h"
#include "runtime/base/text_file.h"
#include "runtime/base/sync.h"

/* The ciphers of TLS 1.2. For TLS 1.3, OpenSSL's defaults apply. */
#define CIPHERS_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"
#define MAX_CHAIN_BYTES (64 << 10)
#define MAX_CHAIN_DEPTH 8
#define MAX_HELLO_BYTES (8 << 10)        /* of the lists in a ClientHello */
#define MAX_FILE_BYTES (1 << 20)         /* of a certificate with its chain, or of a key */
#define MAX_AUTHORITIES_BYTES (16 << 20) /* revocation lists may be long */
#define CHUNK_BYTES 4096

struct TpsTls
{
  TpsRefcount refcount;
  gchar *certificate;
  gchar *key;
  gchar *authorities;
  gboolean allow_tls_1_2;

  TpsMutex lock; /* guards the following */
  SSL_CTX *context;
  gint64 expiry_s;
};

const gchar *
tps_tls_take_reason (void)
{
  gulong code = ERR_peek_error ();
  const gchar *reason = ERR_SYSTEM_ERROR (code) ? g_strerror ((gint) ERR_GET_REASON (code))
                                                : ERR_reason_error_string (code);

  ERR_clear_error ();
  return reason != NULL ? reason : "unknown error";
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Provides no passphrase. Without this function, OpenSSL would ask for it on the terminal. */
static int
give_no_passphrase (char *buffer, int size, int writing, void *unused)
{
  return 0;
}

/* Appends the contents of the file to `out`. Errors: INVALID_ARGUMENT, with only the reason. */
static gboolean
append_file (BIO *out, gint fd, gsize max_bytes, GError **error)
{
  guint8 chunk[CHUNK_BYTES];
  gsize n_bytes = 0;
  gssize n;

  while ((n = read (fd, chunk, sizeof chunk)) > 0 && (n_bytes += (gsize) n) <= max_bytes
         && BIO_write (out, chunk, (int) n) == n)
    continue;
  if (n_bytes > max_bytes)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "it is larger than %" G_GSIZE_FORMAT " MiB", max_bytes >> 20);
  else if (n != 0)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                         n < 0 ? g_strerror (errno) : tps_tls_take_reason ());
  OPENSSL_cleanse (chunk, sizeof chunk);
  return n == 0;
}

/* Returns the contents of the file, in memory that OpenSSL clears before it frees it. OpenSSL's own
 * functions read files through stdio, whose buffers would keep the text of the key. Errors: only
 * the reason. */
static BIO *
read_file (const gchar *path, gsize max_bytes, GError **error)
{
  gint fd = tps_regular_file_open (path, error);
  BIO *file;
  gboolean done;

  if (fd < 0)
    return NULL;
  file = BIO_new (BIO_s_mem ());
  done = file != NULL && append_file (file, fd, max_bytes, error);
  close (fd);
  if (done)
    return file;
  BIO_free (file);
  return NULL;
}

/* Reads the certificate of this process, and then the certificates of its chain. */
static gboolean
use_certificates (SSL_CTX *context, BIO *file)
{
  X509 *certificate = PEM_read_bio_X509_AUX (file, NULL, give_no_passphrase, NULL);
  gboolean done = certificate != NULL && SSL_CTX_use_certificate (context, certificate) == 1;

  X509_free (certificate);
  while (done && (certificate = PEM_read_bio_X509 (file, NULL, give_no_passphrase, NULL)) != NULL)
    if (SSL_CTX_add0_chain_cert (context, certificate) != 1)
      {
        X509_free (certificate);
        return FALSE;
      }
  if (!done || ERR_GET_REASON (ERR_peek_last_error ()) != PEM_R_NO_START_LINE)
    return FALSE;
  ERR_clear_error (); /* the error was the end of the file */
  return TRUE;
}

static gboolean
use_key (SSL_CTX *context, BIO *file)
{
  EVP_PKEY *key = PEM_read_bio_PrivateKey (file, NULL, give_no_passphrase, NULL);
  gboolean done = key != NULL && SSL_CTX_use_PrivateKey (context, key) == 1
                  && SSL_CTX_check_private_key (context) == 1;

  EVP_PKEY_free (key);
  return done;
}

static gboolean
has_revocation_lists (X509_STORE *store)
{
  STACK_OF (X509_OBJECT) *objects = X509_STORE_get0_objects (store);

  for (int i = 0; i < sk_X509_OBJECT_num (objects); i++)
    if (X509_OBJECT_get_type (sk_X509_OBJECT_value (objects, i)) == X509_LU_CRL)
      return TRUE;
  return FALSE;
}

static int
compare_names (const X509_NAME *const *a, const X509_NAME *const *b)
{
  return X509_NAME_cmp (*a, *b);
}

static gboolean
add_name (STACK_OF (X509_NAME) * names, X509 *certificate)
{
  X509_NAME *name = X509_get_subject_name (certificate);

  if (sk_X509_NAME_find (names, name) >= 0)
    return TRUE;
  name = X509_NAME_dup (name);
  if (name != NULL && sk_X509_NAME_push (names, name) > 0)
    return TRUE;
  X509_NAME_free (name);
  return FALSE;
}

static gboolean
add_entry (X509_STORE *store, STACK_OF (X509_NAME) * names, const X509_INFO *entry)
{
  if (entry->x509 != NULL
      && (X509_STORE_add_cert (store, entry->x509) != 1 || !add_name (names, entry->x509)))
    return FALSE;
  return entry->crl == NULL || X509_STORE_add_crl (store, entry->crl) == 1;
}

static gboolean
add_entries (X509_STORE *store, STACK_OF (X509_NAME) * names, BIO *file)
{
  STACK_OF (X509_INFO) *entries = PEM_X509_INFO_read_bio (file, NULL, give_no_passphrase, NULL);
  gboolean done = entries != NULL;

  for (int i = 0; done && i < sk_X509_INFO_num (entries); i++)
    done = add_entry (store, names, sk_X509_INFO_value (entries, i));
  sk_X509_INFO_pop_free (entries, X509_INFO_free);
  return done;
}

static gboolean
use_authorities (SSL_CTX *context, BIO *file)
{
  X509_STORE *store = SSL_CTX_get_cert_store (context);
  STACK_OF (X509_NAME) *names = sk_X509_NAME_new (compare_names);
  gboolean done = names != NULL && add_entries (store, names, file);

  if (done && sk_X509_NAME_num (names) == 0)
    {
      ERR_raise (ERR_LIB_X509, X509_R_NO_CERTIFICATE_FOUND);
      done = FALSE;
    }
  if (has_revocation_lists (store))
    X509_STORE_set_flags (store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  /* The server tells its clients the authorities whose certificates it accepts. */
  SSL_CTX_set_client_CA_list (context, names);
  return done;
}

/* A file of the options, and the function that reads its contents. */
typedef struct
{
  const gchar *kind;
  const gchar *path;
  gsize max_bytes;
  gboolean (*use) (SSL_CTX *context, BIO *file);
} TlsFile;

static gboolean
use_file (SSL_CTX *context, const TlsFile *file, GError **error)
{
  g_autoptr (GError) reason = NULL;
  BIO *contents = read_file (file->path, file->max_bytes, &reason);
  gboolean done = contents != NULL && file->use (context, contents);

  BIO_free (contents);
  if (!done)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "TLS %s %s cannot be used: %s",
                 file->kind, file->path, reason != NULL ? reason->message : tps_tls_take_reason ());
  return done;
}

static gint64
to_unix_time (const ASN1_TIME *time)
{
  struct tm parts;

  return ASN1_TIME_to_tm (time, &parts) == 1 ? (gint64) timegm (&parts) : 0;
}

static gboolean
load_certificate (const TpsTls *tls, SSL_CTX *context, gint64 *expiry_s, GError **error)
{
  const TlsFile certificate = { "certificate", tls->certificate, MAX_FILE_BYTES, use_certificates };
  const TlsFile key = { "key", tls->key != NULL ? tls->key : tls->certificate, MAX_FILE_BYTES,
                        use_key };
  const ASN1_TIME *expiry;

  if (!use_file (context, &certificate, error) || !use_file (context, &key, error))
    return FALSE;
  expiry = X509_get0_notAfter (SSL_CTX_get0_certificate (context));
  *expiry_s = to_unix_time (expiry);
  if (X509_cmp_current_time (expiry) > 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "TLS certificate %s cannot be used: it has expired, and must be renewed",
                   tls->certificate);
}

/* Refuses a ClientHello with long lists before OpenSSL copies them: it keeps up to nine bytes for
 * each byte of the list of ciphers as long as the connection. */
static int
check_hello (SSL *ssl, int *alert, void *unused)
{
  const unsigned char *bytes;
  size_t n_bytes = SSL_client_hello_get0_ciphers (ssl, &bytes), n_types = 0, n;
  int *types = NULL;
  gboolean ok = SSL_client_hello_get1_extensions_present (ssl, &types, &n_types) == 1;

  for (size_t i = 0; ok && i < n_types; i++)
    if (SSL_client_hello_get0_ext (ssl, (unsigned) types[i], &bytes, &n) == 1)
      n_bytes += n;
  OPENSSL_free (types);
  *alert = SSL_AD_DECODE_ERROR;
  return ok && n_bytes <= MAX_HELLO_BYTES ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_ERROR;
}

static void
set_protocol (const TpsTls *tls, SSL_CTX *context)
{
  guint64 options = SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET
                    | SSL_OP_CIPHER_SERVER_PREFERENCE
                    /* Messages contain their length, so a truncated message is noticed anyway. */
                    | SSL_OP_IGNORE_UNEXPECTED_EOF;

#ifdef SSL_OP_ENABLE_KTLS
  options |= SSL_OP_ENABLE_KTLS;
#endif
  SSL_CTX_set_options (context, options);
  SSL_CTX_set_min_proto_version (context, tls->allow_tls_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION);
  SSL_CTX_set_cipher_list (context, CIPHERS_1_2);
  SSL_CTX_set_num_tickets (context, 0);
  SSL_CTX_set_session_cache_mode (context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_client_hello_cb (context, check_hello, NULL);
  SSL_CTX_set_max_cert_list (context, MAX_CHAIN_BYTES);
  SSL_CTX_set_verify_depth (context, MAX_CHAIN_DEPTH);
  /* The file contains the chain. OpenSSL must not search the system's authorities for it in every
   * handshake. */
  SSL_CTX_set_mode (context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
                                 | SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  /* A call processes only one record, so that a flood of records without data cannot occupy the
   * loop. */
  SSL_CTX_clear_mode (context, SSL_MODE_AUTO_RETRY);
  /* One system call reads a whole record into a buffer that has room for hardly more. A larger
   * buffer would cost copies (see tls_channel.c). */
  SSL_CTX_set_read_ahead (context, 1);
}

static gboolean
fill_context (const TpsTls *tls, SSL_CTX *context, gint64 *expiry_s, GError **error)
{
  const TlsFile authorities = { "authorities", tls->authorities, MAX_AUTHORITIES_BYTES,
                                use_authorities };

  *expiry_s = 0;
  set_protocol (tls, context);
  if (tls->certificate != NULL && !load_certificate (tls, context, expiry_s, error))
    return FALSE;
  if (tls->authorities != NULL)
    return use_file (context, &authorities, error);
  SSL_CTX_set_default_verify_paths (context);
  return TRUE;
}

static SSL_CTX *
load_context (const TpsTls *tls, gint64 *expiry_s, GError **error)
{
  SSL_CTX *context;

  ERR_clear_error ();
  context = SSL_CTX_new (TLS_method ());
  if (context == NULL)
    return tps_fail_null (error, TPS_ERROR_RESOURCE_EXHAUSTED, "OpenSSL cannot be used: %s",
                          tps_tls_take_reason ());
  if (fill_context (tls, context, expiry_s, error))
    return context;
  SSL_CTX_free (context);
  return NULL;
}

/* ---- creation and release ------------------------------------------------------------------- */

/* OpenSSL must not clean up at the exit of the program, because threads may still use it. */
static void
initialize (void)
{
  OPENSSL_init_ssl (OPENSSL_INIT_NO_ATEXIT, NULL);
}

TpsTls *
tps_tls_new (const TpsTlsOptions *given, GError **error)
{
  TpsTlsOptions options;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  g_autoptr (TpsTls) tls = g_new0 (TpsTls, 1);

  tps_sync_check (pthread_once (&once, initialize));
  tps_refcount_init (&tls->refcount);
  tps_mutex_init (&tls->lock);
  TPS_SIZED_COPY (options, given);
  tls->certificate = g_strdup (options.certificate);
  tls->key = g_strdup (options.key);
  tls->authorities = g_strdup (options.authorities);
  tls->allow_tls_1_2 = options.allow_tls_1_2;
  tls->context = load_context (tls, &tls->expiry_s, error);
  return tls->context != NULL ? g_steal_pointer (&tls) : NULL;
}

TPS_DEFINE_REF (TpsTls, tps_tls)

void
tps_tls_unref (TpsTls *tls)
{
  if (tls == NULL || !tps_refcount_dec (&tls->refcount))
    return;
  g_clear_pointer (&tls->context, SSL_CTX_free);
  tps_mutex_clear (&tls->lock);
  g_free (tls->certificate);
  g_free (tls->key);
  g_free (tls->authorities);
  g_free (tls);
}

gboolean
tps_tls_reload (TpsTls *tls, GError **error)
{
  SSL_CTX *before;
  gint64 expiry_s;
  SSL_CTX *context = load_context (tls, &expiry_s, error);

  if (context == NULL)
    return FALSE;
  tps_mutex_lock (&tls->lock);
  before = tls->context;
  tls->context = context;
  tls->expiry_s = expiry_s;
  tps_mutex_unlock (&tls->lock);
  SSL_CTX_free (before);
  return TRUE;
}

gint64
tps_tls_get_expiry_s (TpsTls *tls)
{
  TPS_LOCK_SCOPE (&tls->lock);
  return tls->expiry_s;
}

SSL *
tps_tls_new_connection (TpsTls *tls)
{
  TPS_LOCK_SCOPE (&tls->lock);
  return SSL_new (tls->context);
}

gboolean
tps_tls_has_authorities (const TpsTls *tls)
{
  return tls->authorities != NULL;
}
