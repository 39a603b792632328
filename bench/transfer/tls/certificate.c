/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/tls/certificate.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "runtime/base/error.h"

#define VALID_S (7 * 24 * 3600) /* seconds; longer than any run */

static gboolean
name_host (X509 *certificate)
{
  X509_EXTENSION *names = X509V3_EXT_conf_nid (NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
  gboolean done = names != NULL && X509_add_ext (certificate, names, -1) == 1;

  X509_EXTENSION_free (names);
  return done;
}

static gboolean
fill (X509 *certificate, EVP_PKEY *key)
{
  X509_NAME *name = X509_get_subject_name (certificate);

  return X509_set_version (certificate, X509_VERSION_3) == 1
         && ASN1_INTEGER_set (X509_get_serialNumber (certificate), 1) == 1
         && X509_gmtime_adj (X509_getm_notBefore (certificate), -3600) != NULL
         && X509_gmtime_adj (X509_getm_notAfter (certificate), VALID_S) != NULL
         && X509_NAME_add_entry_by_txt (name, "CN", MBSTRING_ASC, (const guchar *) "benchmark", -1,
                                        -1, 0)
                == 1
         && X509_set_issuer_name (certificate, name) == 1 && X509_set_pubkey (certificate, key) == 1
         && name_host (certificate) && X509_sign (certificate, key, EVP_sha256 ()) > 0;
}

static gboolean
write_file (const gchar *path, X509 *certificate, EVP_PKEY *key)
{
  gint fd = open (path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  BIO *file = fd >= 0 ? BIO_new_fd (fd, BIO_CLOSE) : NULL;
  gboolean done = file != NULL && PEM_write_bio_X509 (file, certificate) == 1
                  && PEM_write_bio_PrivateKey (file, key, NULL, NULL, 0, NULL, NULL) == 1;

  BIO_free (file);
  return done;
}

gboolean
tps_transfer_certificate_write (const gchar *path, GError **error)
{
  EVP_PKEY *key = EVP_EC_gen ("P-256");
  X509 *certificate = X509_new ();
  gboolean done = key != NULL && certificate != NULL && fill (certificate, key)
                  && write_file (path, certificate, key);

  X509_free (certificate);
  EVP_PKEY_free (key);
  if (!done)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s: no certificate could be written",
                 path);
  return done;
}
