/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A proxy that forwards frames between a client and a server, and cuts the connection once. It cuts
 * at a given frame to the server, with or without its delivery, or at a given frame to the
 * client. */

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
  CuttingProxy (const std::string &server, Cut cut, int n);
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

  std::string address_;
  int server_port_;
  Cut cut_;
  int at_;
  int listener_;
  std::atomic<bool> was_cut_ { false };
  std::atomic<int> n_connections_ { 0 }, n_requests_ { 0 }, n_answers_ { 0 };
  std::mutex lock_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

} // namespace thriftps
