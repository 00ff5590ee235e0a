// Fake OpenAI-compatible service. One thread, epoll, HTTP/1.1 keep-alive, no allocation per reply.
//   POST */chat/completions          fixed JSON reply, or SSE if the body has "stream": true
//   GET  */models, anything else     small fixed JSON
// The path can start with options, one per segment:
//   /cN   N content chunks in a stream (default 2000), for example http://127.0.0.1:9000/c200/v1
//   /pN   paced stream: one chunk every N microseconds; the content of each chunk is the CLOCK_MONOTONIC of the
//         sender in nanoseconds (20 digits), so that a client can measure the delay of each chunk
//   /dN   delay of N microseconds before the reply (time to first token)
// Usage: service PORT.   cc -O2 -o service service.c
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAXFD 65536
#define HEAD "\"id\":\"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT\",\"object\":\"chat.completion%s\",\"created\":1741569952,\"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_06737a9306\""

typedef struct {
    int fd, want_out;
    char *in; size_t in_len, in_cap;
    const char *out; size_t out_len, out_off;  // reply being sent, not owned
    char *own;                                   // owned buffer behind out, or NULL
    uint64_t due; int left, paced, usage; uint64_t every;  // timer: due != 0 while it is set
} Conn;

static Conn *conns[MAXFD];
static int ep, timers[MAXFD], n_timers;
static char json_reply[4096]; static size_t json_len;
static char small_reply[512]; static size_t small_len;
static struct { int n, usage; char *buf; size_t len; } streams[64]; static int n_streams;

static uint64_t now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }

static const char STREAM_HEAD[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\nCache-Control: no-cache\r\nx-request-id: req_1\r\n\r\n";

static size_t event(char *out, const char *data) { return sprintf(out, "%zx\r\ndata: %s\n\n\r\n", strlen(data) + 8, data); }
static size_t ev_delta(char *out, const char *delta, const char *finish) {
    char d[1024]; sprintf(d, "{" HEAD ",\"choices\":[{\"index\":0,\"delta\":%s,\"logprobs\":null,\"finish_reason\":%s}]}", ".chunk", delta, finish);
    return event(out, d);
}
static size_t ev_tail(char *out, int usage) {
    size_t o = ev_delta(out, "{}", "\"stop\"");
    if (usage) { char d[1024]; sprintf(d, "{" HEAD ",\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29}}", ".chunk"); o += event(out + o, d); }
    o += event(out + o, "[DONE]");
    o += sprintf(out + o, "0\r\n\r\n");
    return o;
}
static size_t ev_first(char *out) { size_t o = sprintf(out, "%s", STREAM_HEAD); return o + ev_delta(out + o, "{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}", "null"); }

static int get_stream(int n, int usage) {
    for (int i = 0; i < n_streams; i++) if (streams[i].n == n && streams[i].usage == usage) return i;
    if (n_streams == 64) return 0;
    char *b = malloc((size_t)n * 400 + 8192); size_t o = ev_first(b);
    for (int i = 0; i < n; i++) { char d[64]; sprintf(d, "{\"content\":\" w%04d\"}", i % 10000); o += ev_delta(b + o, d, "null"); }
    o += ev_tail(b + o, usage);
    streams[n_streams].n = n; streams[n_streams].usage = usage; streams[n_streams].buf = b; streams[n_streams].len = o;
    return n_streams++;
}

static void drop(Conn *c) {
    for (int i = 0; i < n_timers; i++) if (timers[i] == c->fd) { timers[i] = timers[--n_timers]; break; }
    conns[c->fd] = NULL; close(c->fd); free(c->in); free(c->own); free(c);
}
static void interest(Conn *c, int out) {
    if (out == c->want_out) return;
    struct epoll_event e = {.events = out ? EPOLLOUT : EPOLLIN, .data.fd = c->fd}; c->want_out = out; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
}
// returns 1: sent, 0: would block, -1: connection closed
static int flush_out(Conn *c) {
    while (c->out_off < c->out_len) {
        ssize_t w = send(c->fd, c->out + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL);
        if (w < 0) { if (errno == EAGAIN) { interest(c, 1); return 0; } if (errno == EINTR) continue; drop(c); return -1; }
        c->out_off += w;
    }
    c->out_len = c->out_off = 0; interest(c, 0); return 1;
}
static void add_timer(Conn *c, uint64_t due) { if (!c->due) timers[n_timers++] = c->fd; c->due = due; }

// length of the complete request in c->in, 0 if it is incomplete
static size_t request_len(Conn *c, char **body, size_t *body_len) {
    char *h = memmem(c->in, c->in_len, "\r\n\r\n", 4);
    if (!h) return 0;
    size_t hl = h - c->in + 4; size_t cl = 0; int chunked = 0;
    for (char *p = c->in; p < h; ) {
        char *e = memmem(p, h + 2 - p, "\r\n", 2); if (!e) break;
        if (!strncasecmp(p, "content-length:", 15)) cl = strtoul(p + 15, NULL, 10);
        else if (!strncasecmp(p, "transfer-encoding:", 18)) chunked = 1;
        else if (!strncasecmp(p, "expect:", 7) && c->in_len == hl) { if (send(c->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL) < 0) return 0; }
        p = e + 2;
    }
    *body = c->in + hl;
    if (chunked) {
        char *z = memmem(c->in + hl - 2, c->in_len - hl + 2, "\r\n0\r\n\r\n", 7);
        if (!z) return 0;
        *body_len = z - *body; return z + 7 - c->in;
    }
    *body_len = cl; return c->in_len >= hl + cl ? hl + cl : 0;
}

static void answer(Conn *c, char *body, size_t body_len) {
    int chunks = 2000, paced = 0; uint64_t delay = 0, every = 0;
    char *p = memchr(c->in, ' ', c->in_len); p = p ? p + 1 : c->in;
    char *path_end = memchr(p, ' ', 512); if (!path_end) path_end = p;
    for (; *p == '/' && p[1] && strchr("cpd", p[1]) && p[2] >= '0' && p[2] <= '9'; ) {
        unsigned long v = strtoul(p + 2, NULL, 10);
        if (p[1] == 'c') chunks = v; else if (p[1] == 'p') { paced = 1; every = v * 1000; } else delay = v * 1000;
        p = memchr(p + 1, '/', path_end - p - 1); if (!p) break;
    }
    free(c->own); c->own = NULL; c->paced = 0;
    if (!memmem(c->in, path_end - c->in, "/chat/completions", 17)) { c->out = small_reply; c->out_len = small_len; }
    else {
        int stream = 0; char *s = body, *end = body + body_len;
        while ((s = memmem(s, end - s, "\"stream\":", 9))) { s += 9; while (s < end && *s == ' ') s++; if (s < end && *s == 't') stream = 1; if (stream) break; }
        if (!stream) { c->out = json_reply; c->out_len = json_len; }
        else {
            int usage = memmem(body, body_len, "include_usage", 13) != NULL;
            if (paced) { c->own = malloc(8192); c->out = c->own; c->out_len = ev_first(c->own); c->paced = 1; c->left = chunks; c->every = every; c->usage = usage; add_timer(c, now_ns() + (delay ? delay : every)); }
            else { int i = get_stream(chunks, usage); c->out = streams[i].buf; c->out_len = streams[i].len; }
        }
    }
    c->out_off = 0;
    if (delay && !c->paced) add_timer(c, now_ns() + delay);
}
// answer the complete requests in the buffer
static void pump(Conn *c) {
    while (!c->due && !c->out_len) {
        char *body; size_t bl, n = request_len(c, &body, &bl);
        if (!n) return;
        answer(c, body, bl);
        memmove(c->in, c->in + n, c->in_len - n); c->in_len -= n;
        if (c->due && !c->paced) return;
        if (flush_out(c) != 1) return;
    }
}
static void on_timer(Conn *c) {
    if (c->paced) {
        if (c->out_len && flush_out(c) != 1) { if (conns[c->fd] == c) c->due = now_ns() + 100000; return; }
        if (c->left > 0) {
            char d[64]; uint64_t t = now_ns(); sprintf(d, "{\"content\":\"%020llu\"}", (unsigned long long)t);
            c->left--; c->out_len = ev_delta(c->own, d, "null"); c->out_off = 0; c->due += c->every; flush_out(c); return;
        }
        c->out_len = ev_tail(c->own, c->usage); c->out_off = 0; c->paced = 0;
    }
    for (int i = 0; i < n_timers; i++) if (timers[i] == c->fd) { timers[i] = timers[--n_timers]; break; }
    c->due = 0;
    if (flush_out(c) == 1) pump(c);
}

int main(int argc, char **argv) {
    int port = argc > 1 ? atoi(argv[1]) : 9000;
    signal(SIGPIPE, SIG_IGN);
    char b[2048];
    int n = sprintf(b, "{" HEAD ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello! How can I assist you today?\",\"refusal\":null,\"annotations\":[]},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29,\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0,\"audio_tokens\":0,\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}}}", "");
    json_len = sprintf(json_reply, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: keep-alive\r\nx-request-id: req_1\r\nopenai-processing-ms: 1\r\n\r\n%s", n, b);
    const char *m = "{\"object\":\"list\",\"data\":[{\"id\":\"gpt-4o-mini\",\"object\":\"model\",\"created\":1741569952,\"owned_by\":\"mock\"}]}";
    small_len = sprintf(small_reply, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: keep-alive\r\n\r\n%s", strlen(m), m);
    get_stream(2000, 0); get_stream(2000, 1);
    int ls = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(ls, (void *)&a, sizeof a) || listen(ls, 1024)) { perror("bind"); return 1; }
    socklen_t al = sizeof a; getsockname(ls, (void *)&a, &al); printf("listening %d\n", ntohs(a.sin_port)); fflush(stdout);
    ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = ls}; epoll_ctl(ep, EPOLL_CTL_ADD, ls, &e);
    struct epoll_event evs[256];
    for (;;) {
        int timeout = -1; struct timespec ts, *tp = NULL;
        if (n_timers) {
            uint64_t first = UINT64_MAX, t = now_ns();
            for (int i = 0; i < n_timers; i++) if (conns[timers[i]]->due < first) first = conns[timers[i]]->due;
            uint64_t w = first > t ? first - t : 0; ts.tv_sec = w / 1000000000; ts.tv_nsec = w % 1000000000; tp = &ts;
        }
        (void)timeout;
        int k = epoll_pwait2(ep, evs, 256, tp, NULL);
        for (int i = 0; i < k; i++) {
            int fd = evs[i].data.fd;
            if (fd == ls) {
                int s;
                while ((s = accept4(ls, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                    if (s >= MAXFD) { close(s); continue; }
                    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                    Conn *c = calloc(1, sizeof *c); c->fd = s; c->in_cap = 65536; c->in = malloc(c->in_cap); conns[s] = c;
                    struct epoll_event ce = {.events = EPOLLIN, .data.fd = s}; epoll_ctl(ep, EPOLL_CTL_ADD, s, &ce);
                }
                continue;
            }
            Conn *c = conns[fd]; if (!c) continue;
            if (evs[i].events & EPOLLOUT) { if (flush_out(c) == 1) pump(c); continue; }
            if (c->in_cap - c->in_len < 32768) { c->in_cap *= 2; c->in = realloc(c->in, c->in_cap); }
            ssize_t r = recv(fd, c->in + c->in_len, c->in_cap - c->in_len, 0);
            if (r <= 0) { if (r < 0 && (errno == EAGAIN || errno == EINTR)) continue; drop(c); continue; }
            c->in_len += r; pump(c);
        }
        if (n_timers) {
            uint64_t t = now_ns();
            for (int i = n_timers - 1; i >= 0; i--) { if (i >= n_timers) continue; Conn *c = conns[timers[i]]; if (c && c->due && c->due <= t) on_timer(c); }
        }
    }
}
