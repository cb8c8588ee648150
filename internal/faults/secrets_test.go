package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

const canary = "canary \"/%@" // the password

// The password appears in no error, log line or event, no matter what goes wrong between a runtime and its server.
func TestFault_NoSecretIsTold(t *testing.T) {
	t.Parallel()
	ours := []string{"--requirepass", canary}
	for what, fault := range map[string]struct {
		args []string // of the server
		do   func(t *testing.T, p *locktest.Place, proxy *faultproxy.Proxy)
	}{
		"wrong password": {[]string{"--requirepass", "another"}, func(*testing.T, *locktest.Place, *faultproxy.Proxy) {}},
		"no AUTH": { // an old server's refusal repeats the arguments of the client's command
			[]string{"--rename-command", "HELLO", "", "--rename-command", "AUTH", ""}, func(*testing.T, *locktest.Place, *faultproxy.Proxy) {},
		},
		"down":         {ours, func(_ *testing.T, p *locktest.Place, _ *faultproxy.Proxy) { p.Server.Kill() }},
		"silent":       {ours, func(_ *testing.T, _ *locktest.Place, proxy *faultproxy.Proxy) { proxy.Blackhole(true) }},
		"replies lost": {ours, func(_ *testing.T, _ *locktest.Place, proxy *faultproxy.Proxy) { proxy.SwallowReplies(true) }},
		"out of step":  {ours, func(_ *testing.T, _ *locktest.Place, proxy *faultproxy.Proxy) { proxy.RepeatReplies(1000) }},
		"half a reply": {ours, func(_ *testing.T, _ *locktest.Place, proxy *faultproxy.Proxy) { proxy.BreakReplies(1000) }},
		"changed meanwhile": {ours, func(t *testing.T, p *locktest.Place, proxy *faultproxy.Proxy) {
			client := locktest.ClientWith(t, &redis.Options{Addr: p.Addr, Password: canary})
			require.NoError(t, client.ConfigSet(t.Context(), "requirepass", "another").Err())
			proxy.Cut()
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := locktest.OwnPlace(t, locktest.Kinds[0], fault.args...)
			s := &speech{}
			proxy := faultproxy.New(t, p.Addr)
			rt := locktest.NewRuntime(t, locktest.ClientWith(t, &redis.Options{Addr: proxy.Addr(), Password: canary}), holdfast.Options{
				Lease: 300 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug})), OnEvent: s.tell,
			})
			t.Cleanup(proxy.Heal)
			held, err := p.Lock(rt).Acquire(t.Context())
			s.note(err)
			fault.do(t, p, proxy)
			s.provoke(t, p.Another(t), rt, held)
			proxy.Heal()
			assert.Contains(t, s.String(), p.Name, "something is reported")
			for _, secret := range []string{canary, "canary"} {
				assert.NotContains(t, s.String(), secret)
			}
		})
	}
}

// Short and common passwords are hidden where an error would show them, and no other word of the error changes.
func TestFault_NoSecretIsTold_HoweverCommon(t *testing.T) {
	t.Parallel()
	forgetful := locktest.OwnPlace(t, locktest.Kinds[0], "--rename-command", "HELLO", "", "--rename-command", "AUTH", "").Addr
	strict := locktest.OwnPlace(t, locktest.Kinds[0], "--requirepass", "another").Addr
	errorAt := func(addr, user, password string) error {
		options, err := redis.ParseURL("redis://" + url.UserPassword(user, password).String() + "@" + addr)
		require.NoError(t, err)
		options.MaxRetries = -1
		rt := locktest.NewRuntime(t, locktest.ClientWith(t, options), holdfast.Options{Logger: slog.New(slog.DiscardHandler)})
		locktest.Await(t, "an error in time", func() bool { // on a busy machine the server may answer too late
			_, err = rt.Lock("orders").TryAcquire(t.Context())
			return !strings.Contains(fmt.Sprint(err), "no answer")
		})
		require.Error(t, err)
		assert.ErrorContains(t, rt.Check(t.Context()), errors.Unwrap(err).Error(), "Check says the same")
		return err
	}
	addrs := regexp.MustCompile(`127\.0\.0\.1:\d+(->127\.0\.0\.1:\d+)?`)
	for _, password := range []string{"p", "t", "redis", "127.0.0.1", "app", "orders", "user", "wV3kq9Zr0TnL5xQe8YbH2mJd"} {
		for _, user := range []string{"", "app"} {
			err := errorAt(forgetful, user, password)
			assert.EqualError(t, err, `holdfast: acquire "orders": ERR unknown command 'auth', with args beginning with: ***`, "%q", password)
			assert.EqualError(t, errorAt(strict, user, password),
				`holdfast: acquire "orders": WRONGPASS invalid username-password pair or user is disabled.`, "%q", password)
			err = errorAt("127.0.0.1:1", user, password)
			assert.Equal(t, `holdfast: acquire "orders": dial tcp ADDRESS: connect: connection refused`, addrs.ReplaceAllString(err.Error(), "ADDRESS"))
			var network *net.OpError
			assert.ErrorAs(t, err, &network, "%q", password)
		}
		client := locktest.ClientWith(t, &redis.Options{Addr: "app:" + password + "@127.0.0.1:1", MaxRetries: -1})
		_, err := locktest.NewRuntime(t, client, holdfast.Options{Logger: slog.New(slog.DiscardHandler)}).Lock("orders").TryAcquire(t.Context())
		assert.ErrorContains(t, err, "***@127.0.0.1:1: too many colons in address")
		var network *net.OpError
		require.ErrorAs(t, err, &network)
		assert.NotContains(t, network.Error(), ":"+password+"@")
	}
}

// speech is everything that a runtime reports.
type speech struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *speech) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(text)
}

func (s *speech) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.String()
}

func (s *speech) tell(event holdfast.Event) {
	_, _ = fmt.Fprintf(s, "%v %+v %#v\n", event, event, event)
}

// note records an error and every error that it wraps.
func (s *speech) note(err error) {
	if err == nil {
		return
	}
	_, _ = fmt.Fprintf(s, "%v %+v %#v\n", err, err, err)
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		for _, e := range several.Unwrap() {
			s.note(e)
		}
	}
	s.note(errors.Unwrap(err))
}

// provoke calls everything that may fail.
func (s *speech) provoke(t *testing.T, p *locktest.Place, rt *holdfast.Runtime, held *holdfast.Lease) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	lock := p.Lock(rt)
	for _, call := range []func() error{
		func() error { return rt.Check(ctx) },
		func() error { return errorOf(lock.Acquire(ctx)) },
		func() error { return errorOf(lock.TryAcquire(ctx)) },
		func() error { _, err := lock.Inspect(ctx); return err },
		func() error { _, err := lock.ForceRelease(ctx); return err },
		func() error { _, err := rt.Semaphore(p.Name + "-s").Available(ctx); return err },
		func() error { _, err := rt.Election(p.Name+"-e", holdfast.ElectionOptions{}).Leader(ctx); return err },
	} {
		calls.Go(func() { s.note(call()) })
	}
	if held != nil {
		select { // meanwhile failed renewals are reported
		case <-held.Done():
		case <-ctx.Done():
		}
		s.note(held.Err())
		s.note(held.Release(ctx))
	}
	calls.Wait()
}
