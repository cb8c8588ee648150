package recipes

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// oneAtATime serves the requests for one path one after the other, across all processes. A request that has waited for the duration `wait` gets the
// answer 503, so that requests do not pile up behind one that hangs.
func oneAtATime(rt *holdfast.Runtime, wait time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, err := rt.Lock(holdfast.EscapeName(r.URL.Path)).Acquire(r.Context(), holdfast.WithWait(wait))
		_, taken := errors.AsType[*holdfast.BusyError](err)
		switch {
		case taken, errors.Is(err, holdfast.ErrTooManyWaiters):
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		case err != nil: // Redis does not answer, or this process shuts down
			http.Error(w, "locks are not available", http.StatusServiceUnavailable)
			return
		}
		defer func() {
			if err := lease.Release(r.Context()); err != nil { // works even if the client has disconnected
				log.Print(err)
			}
		}()
		ctx, cancel := lease.Context(r.Context()) // ends if the lock is lost
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// A handler answers 503 while another process is busy with the same order.
func Example_httpHandler() {
	rts, _, end := processes(2)
	defer end()
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "paid") })
	post := func(wait time.Duration) {
		answer := httptest.NewRecorder()
		oneAtATime(rts[0], wait, pay).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/orders/7/pay", nil))
		fmt.Println(answer.Code, answer.Body)
	}

	elsewhere, err := rts[1].Lock("/orders/7/pay").Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	post(50 * time.Millisecond)
	if err := elsewhere.Release(context.Background()); err != nil {
		log.Fatal(err)
	}
	post(time.Minute)

	// Output:
	// 503 busy
	//
	// 200 paid
}
