/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests which name of a certificate is the client's name, and which fields are not used as a
 * name. */

#include "plugin/net/tls/tls_channel.h"

#include <gtest/gtest.h>
#include <openssl/x509v3.h>

#include <string>

namespace thriftps {
namespace {

/* `alternatives` is written as in openssl.cnf; "" = none. */
std::string
name_of (const std::string &common_name, const std::string &alternatives)
{
  X509 *certificate = X509_new ();
  X509_NAME *subject = X509_get_subject_name (certificate);

  if (!common_name.empty ())
    X509_NAME_add_entry_by_NID (subject, NID_commonName, MBSTRING_ASC,
                                reinterpret_cast<const unsigned char *> (common_name.data ()),
                                static_cast<int> (common_name.size ()), -1, 0);
  if (!alternatives.empty ())
    {
      X509_EXTENSION *extension = X509V3_EXT_conf_nid (nullptr, nullptr, NID_subject_alt_name,
                                                       alternatives.c_str ());

      EXPECT_NE (extension, nullptr) << alternatives;
      X509_add_ext (certificate, extension, -1);
      X509_EXTENSION_free (extension);
    }
  g_autofree gchar *name = tps_certificate_dup_name (certificate);
  X509_free (certificate);
  return name != nullptr ? name : "";
}

TEST (CertificateName, aSpiffeIdComesBeforeOtherNames)
{
  EXPECT_EQ (name_of ("host", "DNS:a.example,URI:https://x/,URI:spiffe://fleet/a,URI:spiffe://b/c"),
             "spiffe://fleet/a");
  EXPECT_EQ (name_of ("host", "IP:127.0.0.1,DNS:a.example,DNS:b.example"), "dns:a.example");
  EXPECT_EQ (name_of ("host", "IP:127.0.0.1"), "cn:host");
  EXPECT_EQ (name_of ("host", ""), "cn:host");
  EXPECT_EQ (name_of ("", ""), "");
}

/* A certificate must neither choose a name of another kind nor hide a part of its own name. */
TEST (CertificateName, hostileNamesDoNotCount)
{
  EXPECT_EQ (name_of ("uid:0", ""), "cn:uid:0");
  EXPECT_EQ (name_of ("spiffe://fleet/admin", ""), "cn:spiffe://fleet/admin");
  EXPECT_EQ (name_of ("host", "URI:token:admin"), "cn:host");
  EXPECT_EQ (name_of (std::string ("admin\0.evil.example", 19), ""), "");
  EXPECT_EQ (name_of ("two words", ""), "");
  EXPECT_EQ (name_of ("line\nbreak", "DNS:a.example"), "dns:a.example");
}

} // namespace
} // namespace thriftps
