package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/web"
)

func pageCommand() *command {
	o, listen, hosts := web.Options{}, "localhost:7654", ""
	return &command{
		name: "page", args: "[flags]",
		does:     "serve a web page that shows the locks",
		about:    `Serves a web page that shows the locks, their holders and their waiters, and updates itself. The page has no login: anyone who can reach the address can see the locks and, with --allow-free, free them. It uses plain HTTP. To serve the page behind the authentication of your own service, mount the handler of package web there.`,
		exits:    "  0   ended by SIGINT or SIGTERM\n  64  the command line is wrong\n  69  the address cannot be used",
		examples: "  holdfast page\n  holdfast page --listen :8080 --host ops.example.com --pattern 'orders:*'",
		flags: func(f *flags) {
			f.text(&listen, "listen", "ADDR", "the address to listen on; default localhost:7654")
			f.text(&hosts, "host", "NAMES", "further names under which browsers may reach the page, separated by commas; localhost, the name in --listen and IP addresses are always allowed")
			f.text(&o.Pattern, "pattern", "PATTERN", "which locks are listed, as in the command KEYS of Redis; default all")
			f.flag(&o.AllowFree, "allow-free", "let viewers free locks by force, after a confirmation")
		},
		run: func(a *app, in input) int {
			if len(in.args) > 0 {
				return a.usage("page", errors.New("it takes no arguments"))
			}
			listened, _, _ := net.SplitHostPort(listen)
			names := strings.FieldsFunc(strings.ToLower("localhost,"+listened+","+hosts), isSeparator)
			code := exitUsage
			opened := a.withClient("page", func(ctx context.Context, client redis.UniversalClient) int {
				code = a.page(ctx, client, o, listen, names)
				return code
			})
			if opened == exitUsage {
				return exitUsage
			}
			return code // after the usual end by a signal, code is 0, but opened would be the exit code for that signal
		},
	}
}

func (a *app) page(ctx context.Context, client redis.UniversalClient, o web.Options, listen string, names []string) int {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return a.failed(err)
	}
	server := &http.Server{
		Handler: onlyFor(names, web.Handler(client, o)), ReadHeaderTimeout: 10 * time.Second,
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

// onlyFor refuses requests whose Host is neither an IP address nor one of the given names. Without this check, a foreign site could make its own name
// resolve to the address of this server (DNS rebinding). The browser would then let the site read the page and free locks.
func onlyFor(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		if _, err := netip.ParseAddr(host); err != nil && !slices.Contains(names, strings.ToLower(host)) {
			http.Error(w, fmt.Sprintf("This page is not served under the name %q. Start it with --host to allow that.", host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
