package web_test

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
	"github.com/holdfast-go/holdfast/web"
)

// authenticated admits only users that the service knows. A real service uses its own middleware.
func authenticated(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("secret"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if got := sha256.Sum256([]byte(password)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="locks"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A service shows the page under /locks/ to users who have logged in.
func ExampleHandler() {
	redis, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = redis.Close() }()
	ctx, client := context.Background(), redis.Client()
	rt, err := holdfast.New(client, holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rt.Close(ctx) }()
	lease, err := rt.Lock("order:7").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = lease.Release(ctx) }()

	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", authenticated(web.Handler(client, web.Options{}))))
	server := httptest.NewServer(mux) // with an http.Server, cancel its BaseContext in RegisterOnShutdown: that ends the streams
	defer server.Close()

	for _, password := range []string{"a guess", "secret"} {
		asked, err := http.NewRequest(http.MethodGet, server.URL+"/locks/", nil)
		if err != nil {
			log.Fatal(err)
		}
		asked.SetBasicAuth("ops", password)
		answer, err := http.DefaultClient.Do(asked)
		if err != nil {
			log.Fatal(err)
		}
		var page strings.Builder
		_ = answer.Write(&page)
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode, "shows the lock:", strings.Contains(page.String(), "order:7"))
	}
	// Output:
	// 401 shows the lock: false
	// 200 shows the lock: true
}
