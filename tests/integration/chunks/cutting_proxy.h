/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A proxy that forwards frames between a client and a server, and cuts connections: once, at a
 * given frame to the server, with or without its delivery, or at a given frame to the client; or
 * each time when it has been told to lose a reply. */

#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace thriftps {

enum class Cut
{
  BEFORE_REQUEST, /* frame n of the client is not delivered */
  AFTER_REQUEST,  /* frame n of the client is delivered, and then the connection is cut */
  BEFORE_ANSWER,  /* frame n of the server is not delivered */
};

class CuttingProxy
{
public:
  /* `n` counts from 0. The value -1 disables the cut. */
  explicit CuttingProxy (const std::string &server, Cut cut = Cut::BEFORE_REQUEST, int n = -1);
  ~CuttingProxy ();

  std::string
  address () const
  {
    return address_;
  }

  int
  n_connections () const
  {
    return n_connections_;
  }

  bool
  was_cut () const
  {
    return was_cut_;
  }

  /* Drops the next `n` replies by closing their connections. */
  void
  lose_answers (int n)
  {
    n_to_lose_ = n;
  }

  int
  n_lost () const
  {
    return n_lost_;
  }

  /* Returns the number of frames that clients have sent. */
  int
  n_requests () const
  {
    return n_requests_;
  }

private:
  void accept_all ();
  void pass (int from, int to, bool is_request);
  bool is_cut (bool is_request, int n) const;
  bool shall_lose ();

  std::string address_;
  int server_port_;
  Cut cut_;
  int at_;
  int listener_;
  std::atomic<bool> was_cut_ { false };
  std::atomic<int> n_connections_ { 0 }, n_requests_ { 0 }, n_answers_ { 0 }, n_to_lose_ { 0 },
      n_lost_ { 0 };
  std::mutex lock_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

} // namespace thriftps
