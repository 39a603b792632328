// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Certificate authorities, and files with the certificates that they issue.

#pragma once

#include <openssl/x509.h>

#include <string>

namespace thriftps_test {

struct Subject
{
  std::string names = "IP:127.0.0.1,DNS:localhost"; // written as in openssl.cnf
  long valid_s = 3600;                              // from now on; negative = expired
};

class Authority
{
public:
  explicit Authority (const std::string &name);
  ~Authority ();
  Authority (const Authority &) = delete;
  Authority &operator= (const Authority &) = delete;

  // Issues a certificate, and writes it with its key into one file.
  void Issue (const std::string &path, const Subject &subject = Subject ());

  // Writes the authority's own certificate. If `revoked` names a file that Issue() wrote, it also
  // writes a revocation list with that certificate.
  void Write (const std::string &path, const std::string &revoked = "");

private:
  X509_NAME *name_;
  EVP_PKEY *key_;
  X509 *certificate_;
  long serial_ = 1;
};

} // namespace thriftps_test
