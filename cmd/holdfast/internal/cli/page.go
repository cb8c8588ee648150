package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/web"
)

func pageCommand() *command {
	o, listen := web.Options{}, "localhost:7654"
	return &command{
		name: "page", args: "[flags]",
		does:     "serve a web page that shows the locks",
		about:    `Serves a web page that shows the locks, their holders and their waiters, and updates itself. The page has no login: anyone who can reach the address can see the locks and, with --allow-free, free them. It uses plain HTTP. To serve the page behind the authentication of your own service, mount the handler of package web there.`,
		exits:    "  0   ended by SIGINT or SIGTERM\n  64  the command line is wrong\n  69  the address cannot be used",
		examples: "  holdfast page\n  holdfast page --listen :8080 --pattern 'orders:*'",
		flags: func(f *flags) {
			f.text(&listen, "listen", "ADDR", "the address to listen on; default localhost:7654")
			f.text(&o.Pattern, "pattern", "PATTERN", "which locks are listed, as in the command KEYS of Redis; default all")
			f.flag(&o.AllowFree, "allow-free", "let viewers free locks by force, after a confirmation")
		},
		run: func(a *app, in input) int {
			if len(in.args) > 0 {
				return a.usage("page", errors.New("it takes no arguments"))
			}
			code := exitUsage
			opened := a.withClient("page", func(ctx context.Context, client redis.UniversalClient) int {
				code = a.page(ctx, client, o, listen)
				return code
			})
			if opened == exitUsage {
				return exitUsage
			}
			return code // not the code for a signal: users normally end the page by one
		},
	}
}

func (a *app) page(ctx context.Context, client redis.UniversalClient, o web.Options, listen string) int {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return a.failed(err)
	}
	handler := web.Handler(client, o)
	if addr, ok := listener.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		handler = onlyLocal(handler)
	}
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }, // the streams end when ctx does
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	a.say("serving http://%s", listener.Addr())
	select {
	case err := <-ended:
		return a.failed(err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), endWait)
	defer cancel()
	if server.Shutdown(stop) != nil {
		_ = server.Close()
	}
	return exitOK
}

// onlyLocal refuses requests whose Host is not this machine. Otherwise a foreign site could make its own name resolve to this address, and
// read the page.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this page is for localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
