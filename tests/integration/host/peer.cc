/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/host/peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace wire {

const int kHandshakeMs = 20000;

static int64_t
now_ms ()
{
  using namespace std::chrono;
  return duration_cast<milliseconds> (steady_clock::now ().time_since_epoch ()).count ();
}

[[noreturn]] static void
die (const char *what)
{
  perror (what);
  abort ();
}

/* ---- connections ---------------------------------------------------------------------------- */

static int
connect_unix (const std::string &path)
{
  sockaddr_un address = {};
  int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  address.sun_family = AF_UNIX;
  strncpy (address.sun_path, path.c_str (), sizeof address.sun_path - 1);
  if (fd < 0 || connect (fd, reinterpret_cast<sockaddr *> (&address), sizeof address) != 0)
    die ("connect");
  return fd;
}

static int
connect_tcp (int port)
{
  sockaddr_in address = {};
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int yes = 1;
  address.sin_family = AF_INET;
  address.sin_port = htons (static_cast<uint16_t> (port));
  address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  if (fd < 0 || connect (fd, reinterpret_cast<sockaddr *> (&address), sizeof address) != 0)
    die ("connect");
  setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return fd;
}

Peer::Peer (const std::string &address, Protocol protocol, bool framed, Transport transport)
    : protocol_ (protocol), framed_ (framed)
{
  if (address.rfind ("unix:", 0) == 0)
    fd_ = connect_unix (address.substr (5));
  else
    fd_ = connect_tcp (atoi (address.c_str ()));
  if (transport == Transport::Tls)
    shake_hands ();
}

Peer::~Peer ()
{
  if (fd_ >= 0)
    close (fd_);
}

void
Peer::shake_hands ()
{
  Answer answer;
  tls_ = std::make_unique<TlsEnd> ();
  while (!tls_->shake_hands ())
    if (!send_raw (tls_->take_output ()) || !read_some (kHandshakeMs, &answer))
      die ("TLS handshake");
  if (!send_raw (tls_->take_output ()))
    die ("TLS handshake");
}

bool
Peer::send (const std::string &bytes)
{
  return send_raw (tls_ != nullptr ? tls_->seal (bytes) : bytes);
}

bool
Peer::send_raw (const std::string &bytes)
{
  for (size_t done = 0; done < bytes.size ();)
    {
      ssize_t n = ::send (fd_, bytes.data () + done, bytes.size () - done, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return false;
      done += static_cast<size_t> (n);
    }
  return true;
}

bool
Peer::send_message (const Message &message)
{
  std::string bytes = encode (protocol_, message);
  return send (framed_ ? frame (bytes) : bytes);
}

void
Peer::end_of_sending ()
{
  if (tls_ != nullptr)
    send_raw (tls_->goodbye ());
  shutdown (fd_, SHUT_WR);
}

void
Peer::reset ()
{
  linger now = { 1, 0 };
  setsockopt (fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close (fd_);
  fd_ = -1;
}

bool
Peer::read_some (int timeout_ms, Answer *answer)
{
  char bytes[65536];
  pollfd ready = { fd_, POLLIN, 0 };
  int n_ready = poll (&ready, 1, timeout_ms);
  if (n_ready < 0 && errno == EINTR)
    return true;
  if (n_ready <= 0)
    {
      answer->timed_out = true;
      return false;
    }
  ssize_t n = recv (fd_, bytes, sizeof bytes, 0);
  if (n < 0 && errno == EINTR)
    return true;
  if (n <= 0)
    {
      answer->closed = true;
      return false;
    }
  if (tls_ == nullptr)
    received_.append (bytes, static_cast<size_t> (n));
  else
    received_ += tls_->open (std::string (bytes, static_cast<size_t> (n)));
  return true;
}

/* Decodes the next reply from the received bytes. Returns true if there is a reply, or if the bytes
 * are malformed. */
bool
Peer::try_decode (Answer *answer)
{
  std::string bytes = received_;
  size_t n_bytes = 0;
  try
    {
      if (framed_)
        {
          if (received_.size () < 4)
            return false;
          uint32_t length;
          memcpy (&length, received_.data (), 4);
          length = ntohl (length);
          if (length > (1u << 30))
            throw Malformed ("a frame of more than 1 GiB");
          if (received_.size () - 4 < length)
            return false;
          bytes = received_.substr (4, length);
        }
      answer->message = decode (protocol_, bytes, &n_bytes);
      if (framed_ && n_bytes != bytes.size ())
        throw Malformed ("bytes after the message in its frame");
      received_.erase (0, framed_ ? 4 + bytes.size () : n_bytes);
      return true;
    }
  catch (const Incomplete &)
    {
      if (!framed_)
        return false;
      answer->malformed = true;
      answer->why = "the message is longer than its frame";
    }
  catch (const Malformed &malformed)
    {
      answer->malformed = true;
      answer->why = malformed.what ();
    }
  return true;
}

Answer
Peer::receive (int timeout_ms)
{
  Answer answer;
  int64_t end_ms = now_ms () + timeout_ms;
  while (received_.empty () || !try_decode (&answer))
    if (!read_some (static_cast<int> (std::max<int64_t> (0, end_ms - now_ms ())), &answer))
      break;
  if (answer.closed && !received_.empty ())
    {
      answer.malformed = true;
      answer.why = "the connection ended inside an answer";
    }
  return answer;
}

Answer
Peer::call (const std::string &name, Value arguments, int32_t seqid, int timeout_ms)
{
  Message message;
  message.name = name;
  message.seqid = seqid;
  message.body = std::move (arguments);
  send_message (message);
  return receive (timeout_ms);
}

bool
Peer::wait_for_end (int timeout_ms)
{
  Answer answer;
  int64_t end_ms = now_ms () + timeout_ms;
  while (read_some (static_cast<int> (std::max<int64_t> (0, end_ms - now_ms ())), &answer))
    received_.clear ();
  return answer.closed;
}

/* ---- processes ------------------------------------------------------------------------------ */

static std::string
read_line (int fd)
{
  std::string line;
  char c;
  while (read (fd, &c, 1) == 1 && c != '\n')
    line += c;
  return line;
}

Process::Process (const std::vector<std::string> &argv, bool end_by_signal)
    : end_by_signal_ (end_by_signal)
{
  int in[2];
  int out[2];
  std::vector<char *> arguments;
  for (const auto &argument : argv)
    arguments.push_back (const_cast<char *> (argument.c_str ()));
  arguments.push_back (nullptr);
  if (pipe2 (in, O_CLOEXEC) != 0 || pipe2 (out, O_CLOEXEC) != 0)
    die ("pipe");
  pid_ = fork ();
  if (pid_ < 0)
    die ("fork");
  if (pid_ == 0)
    {
      dup2 (in[0], STDIN_FILENO);
      dup2 (out[1], STDOUT_FILENO);
      execv (arguments[0], arguments.data ());
      die (arguments[0]);
    }
  close (in[0]);
  close (out[1]);
  stdin_ = in[1];
  stdout_ = out[0];
  std::string line = read_line (stdout_);
  const std::string expected = "listening on ";
  if (line.rfind (expected, 0) != 0)
    {
      fprintf (stderr, "%s said \"%s\"\n", argv[0].c_str (), line.c_str ());
      abort ();
    }
  address_ = line.substr (expected.size ());
  if (address_.rfind ("unix:", 0) != 0 && address_.rfind (':') != std::string::npos)
    address_ = address_.substr (address_.rfind (':') + 1);
}

Process::~Process ()
{
  end ();
}

bool
Process::is_alive ()
{
  int status;
  if (!status_ && waitpid (pid_, &status, WNOHANG) == pid_)
    status_ = WIFEXITED (status) ? WEXITSTATUS (status) : -WTERMSIG (status);
  return !status_;
}

int
Process::end ()
{
  int status;
  if (stdin_ >= 0)
    close (stdin_);
  stdin_ = -1;
  if (!status_ && end_by_signal_)
    kill (pid_, SIGTERM);
  if (!status_ && waitpid (pid_, &status, 0) == pid_)
    status_ = WIFEXITED (status) ? WEXITSTATUS (status) : -WTERMSIG (status);
  if (stdout_ >= 0)
    close (stdout_);
  stdout_ = -1;
  return *status_;
}

size_t
Process::resident_bytes () const
{
  std::string path = "/proc/" + std::to_string (pid_) + "/statm";
  FILE *file = fopen (path.c_str (), "r");
  unsigned long total = 0;
  unsigned long resident = 0;
  if (file == nullptr || fscanf (file, "%lu %lu", &total, &resident) != 2)
    die ("statm");
  fclose (file);
  return resident * static_cast<size_t> (sysconf (_SC_PAGESIZE));
}

double
Process::cpu_seconds () const
{
  std::string path = "/proc/" + std::to_string (pid_) + "/stat";
  FILE *file = fopen (path.c_str (), "r");
  unsigned long user = 0;
  unsigned long system = 0;
  if (file == nullptr
      || fscanf (file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                 &system)
             != 2)
    die ("stat");
  fclose (file);
  return static_cast<double> (user + system) / static_cast<double> (sysconf (_SC_CLK_TCK));
}

} // namespace wire
