// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Authorities, and files with the certificates that they issue.

#pragma once

#include <openssl/x509.h>

#include <string>

namespace thriftps_test {

struct Subject
{
  std::string names = "IP:127.0.0.1,DNS:localhost"; // as openssl.cnf has them
  long valid_s = 3600;                              // from now on; negative = it has expired
};

class Authority
{
public:
  explicit Authority (const std::string &name);
  ~Authority ();
  Authority (const Authority &) = delete;
  Authority &operator= (const Authority &) = delete;

  // Writes certificate and key into one file.
  void Issue (const std::string &path, const Subject &subject = Subject ());

  // Writes the authority's own certificate, with a revocation list if `revoked` names a file that
  // Issue() wrote.
  void Write (const std::string &path, const std::string &revoked = "");

private:
  X509_NAME *name_;
  EVP_PKEY *key_;
  X509 *certificate_;
  long serial_ = 1;
};

} // namespace thriftps_test
