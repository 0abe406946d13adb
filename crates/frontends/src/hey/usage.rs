//! What `prony hey -help` says, and every complaint about arguments ends with.

/// The flags, on a machine of so many cores.
pub(super) fn usage(cores: usize) -> String {
    format!(
        "\
Usage: hey [options...] <url>

Options:
  -n  Requests to make, all workers together, exactly so many. Default is 200.
  -c  Workers: requests at once, at most. No more than -n. Default is 50.
  -q  Requests a second for each worker, whatever the server does: the load is
      an open loop of -q times -c a second. Default is as fast as answers come.
  -z  How long to make requests, such as 10s or 3m, in place of -n. Those under
      way at the end are waited for.
  -o  \"csv\" prints a line for each answer in place of the summary.

  -m  The method: GET, POST, PUT, DELETE, HEAD, OPTIONS and so on.
  -H  A header, such as -H \"Accept: text/html\"; as often as needed.
  -t  Seconds until a request is given up. Default is 20; 0 is never.
  -A  The header Accept.
  -d  The body.
  -D  A file that holds the body.
  -T  The header Content-Type. Default is \"text/html\".
  -U  What User-Agent begins with.
  -a  user:password for basic authentication.
  -x  A proxy, as host:port or http://user:password@host:port.
  -h2 HTTP/2 where a server over TLS speaks it.

  -host  The header Host, and the name that TLS asks for.

  -disable-compression  Don't ask for compressed answers.
  -disable-keepalive    A connection for each request.
  -disable-redirects    Count an answer that points elsewhere as it is.
  -cpus                 Worker threads. Default is one a core, here {cores}.
  -more                 Nothing: the details of older versions are always there.

Options that hey has not:
  -timeline FILE        Write [seconds, completions] pairs, one each half second.
  -progress lines|none  Whether the summary begins with \"N requests done.\", each
                        half second. Default is lines.
"
    )
}
