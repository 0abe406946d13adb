//! Usage text, which is printed by `prony hey -help` and after some error messages.

/// Returns the usage text for a machine with this number of cores.
pub(super) fn usage(cores: usize) -> String {
    format!(
        "\
Usage: hey [options...] <url>

Options:
  -n  Exact number of requests, over all workers. Default is 200.
  -c  Workers: maximum number of requests at the same time. At most -n.
      Default is 50.
  -q  Requests per second for each worker, however fast the server is: the load
      is an open loop of -q times -c per second. Default is as fast as possible.
  -z  Duration such as 10s or 3m, instead of -n. Requests in flight at the
      end are completed.
  -o  \"csv\" prints a line for each response instead of the summary.

  -m  The method: GET, POST, PUT, DELETE, HEAD, OPTIONS and so on.
  -H  A header, such as -H \"Accept: text/html\"; repeatable.
  -t  Timeout of a request in seconds. Default is 20; 0 means none.
  -A  The Accept header.
  -d  The body.
  -D  A file that contains the body.
  -T  The Content-Type header. Default is \"text/html\".
  -U  The beginning of the User-Agent header.
  -a  user:password for basic authentication.
  -x  A proxy, as host:port or http://user:password@host:port.
  -h2 Use HTTP/2 if the server supports it over TLS.

  -host  The Host header, and the server name for TLS.

  -disable-compression  Don't request compressed responses.
  -disable-keepalive    Open a connection for each request.
  -disable-redirects    Count a redirect as the response.
  -cpus                 Worker threads. Default is one per core, here {cores}.
  -more                 No effect: details are always printed.

Options that only prony has:
  -timeline FILE        Write a [seconds, completions] pair every half second.
  -progress lines|none  Print \"N requests done.\" every half second, or nothing.
                        Default is lines.
"
    )
}
