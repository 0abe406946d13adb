/* A server whose functions have known costs: parse_request (20 units), render_page (77 units) and
 * extra_work (as many units as the second argument says). The first argument is the port, and the
 * third one the work of a unit. It has one thread, and answers each read with one response. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile unsigned long sink;
static unsigned long unit = 2000;

__attribute__((noinline)) void parse_request(unsigned long units) {
    for (unsigned long i = 0; i < units * unit; i++) sink += i * i;
}
__attribute__((noinline)) void render_page(unsigned long units) {
    for (unsigned long i = 0; i < units * unit; i++) sink += i * i;
}
__attribute__((noinline)) void extra_work(unsigned long units) {
    for (unsigned long i = 0; i < units * unit; i++) sink += i * i;
}

int main(int argc, char **argv) {
    unsigned long extra = strtoul(argv[2], 0, 10);
    if (argc > 3) unit = strtoul(argv[3], 0, 10);
    static const char response[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/plain\r\n\r\nok\n";
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 511)) return 1;
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[64];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int client = accept(listener, 0, 0);
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event.events = EPOLLIN;
                event.data.fd = client;
                epoll_ctl(epoll, EPOLL_CTL_ADD, client, &event);
                continue;
            }
            char buffer[4096];
            if (read(fd, buffer, sizeof buffer) <= 0) { close(fd); continue; }
            parse_request(20);
            render_page(77);
            if (extra) extra_work(extra);
            if (write(fd, response, sizeof response - 1) < 0) close(fd);
        }
    }
}
