// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/plugin/net/tls/certificates.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

namespace thriftps_test {

namespace {

using File = std::unique_ptr<FILE, int (*) (FILE *)>;

File
Open (const std::string &path, const char *mode)
{
  File file (fopen (path.c_str (), mode), fclose);
  if (file == nullptr)
    throw std::runtime_error (path + " cannot be opened");
  return file;
}

void
Extend (X509 *certificate, int nid, const std::string &value)
{
  X509_EXTENSION *extension = X509V3_EXT_conf_nid (nullptr, nullptr, nid, value.c_str ());
  X509_add_ext (certificate, extension, -1);
  X509_EXTENSION_free (extension);
}

X509 *
NewCertificate (X509_NAME *issuer, const std::string &subject, EVP_PKEY *key, long serial,
                long valid_s)
{
  X509 *certificate = X509_new ();
  X509_set_version (certificate, 2);
  ASN1_INTEGER_set (X509_get_serialNumber (certificate), serial);
  X509_gmtime_adj (X509_getm_notBefore (certificate), -7200);
  X509_gmtime_adj (X509_getm_notAfter (certificate), valid_s);
  X509_NAME_add_entry_by_txt (X509_get_subject_name (certificate), "CN", MBSTRING_ASC,
                              (const unsigned char *) subject.c_str (), -1, -1, 0);
  X509_set_issuer_name (certificate,
                        issuer != nullptr ? issuer : X509_get_subject_name (certificate));
  X509_set_pubkey (certificate, key);
  return certificate;
}

} // namespace

Authority::Authority (const std::string &name) : key_ (EVP_EC_gen ("P-256"))
{
  certificate_ = NewCertificate (nullptr, name, key_, 1, 86400);
  Extend (certificate_, NID_basic_constraints, "critical,CA:TRUE");
  Extend (certificate_, NID_key_usage, "critical,keyCertSign,cRLSign");
  X509_sign (certificate_, key_, EVP_sha256 ());
  name_ = X509_get_subject_name (certificate_);
}

Authority::~Authority ()
{
  X509_free (certificate_);
  EVP_PKEY_free (key_);
}

void
Authority::Issue (const std::string &path, const Subject &subject)
{
  File file = Open (path, "w");
  EVP_PKEY *key = EVP_EC_gen ("P-256");
  X509 *certificate = NewCertificate (name_, "issued", key, ++serial_, subject.valid_s);
  Extend (certificate, NID_subject_alt_name, subject.names);
  X509_sign (certificate, key_, EVP_sha256 ());
  PEM_write_X509 (file.get (), certificate);
  PEM_write_PrivateKey (file.get (), key, nullptr, nullptr, 0, nullptr, nullptr);
  X509_free (certificate);
  EVP_PKEY_free (key);
}

void
Authority::Write (const std::string &path, const std::string &revoked)
{
  File file = Open (path, "w");
  PEM_write_X509 (file.get (), certificate_);
  if (revoked.empty ())
    return;
  File issued = Open (revoked, "r");
  X509 *certificate = PEM_read_X509 (issued.get (), nullptr, nullptr, nullptr);
  X509_CRL *list = X509_CRL_new ();
  X509_REVOKED *entry = X509_REVOKED_new ();
  ASN1_TIME *now = X509_gmtime_adj (nullptr, -60);
  ASN1_TIME *next = X509_gmtime_adj (nullptr, 3600);
  X509_CRL_set_version (list, 1);
  X509_CRL_set_issuer_name (list, name_);
  X509_CRL_set1_lastUpdate (list, now);
  X509_CRL_set1_nextUpdate (list, next);
  X509_REVOKED_set_serialNumber (entry, X509_get_serialNumber (certificate));
  X509_REVOKED_set_revocationDate (entry, now);
  X509_CRL_add0_revoked (list, entry);
  X509_CRL_sign (list, key_, EVP_sha256 ());
  PEM_write_X509_CRL (file.get (), list);
  X509_CRL_free (list);
  ASN1_TIME_free (now);
  ASN1_TIME_free (next);
  X509_free (certificate);
}

} // namespace thriftps_test
