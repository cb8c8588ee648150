package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

const (
	// lease is short to keep the run short; a service would keep the default of 30 s.
	lease = 2 * time.Second
	// patience limits one scene, and each step of opening and closing the stage.
	patience = 10 * time.Second
)

// stage is the environment of the scenes: a server, the runtimes A and B, and the prefix of this run's keys.
type stage struct {
	*timeline
	url    string
	server *embedded.Server // nil if the server is not part of this process
	a, b   *party
	prefix string
	used   []string // the keys of the locks used so far
}

// party is a runtime with its own Redis client, like a separate process.
type party struct {
	name   string
	client *redis.Client
	*holdfast.Runtime
}

// scene is one demonstration, with its own lock. perform returns an error if the scene did not happen as described.
type scene struct {
	title   string
	lock    string
	perform func(ctx context.Context, s *stage, lock string) error
}

// checkURL reports what is wrong with a Redis URL. The error must not reveal the password, so it repeats nothing of a URL that cannot be parsed: any
// part of such a URL may belong to the password. If the path or the parameters contain an @, the error does not repeat them either, because they may
// be the end of the password. For example, the password in redis://:9/secret=@host looks like a port and a path.
func checkURL(raw string) error {
	const doubt = "is a special character in the password not percent-encoded?"
	_, err := redis.ParseURL(raw)
	u, unparsed := url.Parse(raw)
	switch {
	case unparsed != nil:
		return errors.New("not a URL; " + doubt)
	case u.Fragment != "":
		return errors.New("a URL of Redis has no #; " + doubt)
	case err != nil && strings.Contains(u.Path+u.RawQuery, "@"):
		return errors.New("a parameter or the number of the database is wrong; " + doubt)
	}
	return err
}

// openStage connects to the server before it prints anything. Without a URL it starts Redis inside the process.
func openStage(ctx context.Context, rawURL string, out *timeline) (*stage, error) {
	s := &stage{timeline: out, url: rawURL, prefix: "holdfast-quickstart:" + rand.Text()[:8] + ":"}
	where := "a Redis server"
	if rawURL == "" {
		server, err := embedded.Start()
		if err != nil {
			return nil, fmt.Errorf("start Redis inside the process: %w", err)
		}
		s.server, s.url = server, "redis://"+server.Addr()
		where = "a Redis inside this process"
	}
	if err := s.enter(ctx); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	s.say("-", "%s at %s, keys %s*", where, s.a.client.Options().Addr, s.prefix)
	s.say("-", "two runtimes, A and B, with a lease of %v", lease)
	return s, nil
}

// enter opens A and B.
func (s *stage) enter(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.a, err = s.join(ctx, "A"); err != nil {
		return err
	}
	s.b, err = s.join(ctx, "B")
	return err
}

// join opens a client and a runtime on it.
func (s *stage) join(ctx context.Context, name string) (*party, error) {
	options, err := redis.ParseURL(s.url)
	if err != nil {
		return nil, err // does not happen: checkURL has accepted the URL
	}
	options.DialTimeout, options.DialerRetries, options.MaxRetries = 2*time.Second, 1, -1 // so that a server that does not answer is reported soon
	client := redis.NewClient(options)
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("reach Redis at %s: %w", options.Addr, err)
	}
	rt, err := holdfast.New(client, holdfast.Options{
		Lease:      lease,
		NameMapper: s.key,
		Logger:     slog.New(slog.DiscardHandler), // the timeline shows what matters here
	})
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &party{name: name, client: client, Runtime: rt}, nil
}

// leave first closes the runtime, which releases what it holds, and then closes the client.
func (p *party) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return errors.Join(p.Close(ctx), p.client.Close())
}

// key returns the Redis key of a lock. No other run of the program uses this key.
func (s *stage) key(name string) string { return s.prefix + name }

// perform plays one scene within its time limit.
func (s *stage) perform(ctx context.Context, scene scene) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.used = append(s.used, s.key(scene.lock))
	return scene.perform(ctx, s, scene.lock)
}

// close closes the parts that are open and checks that no key of this run is left in Redis. Any part of the stage may be missing.
func (s *stage) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // even after an interrupt
	defer cancel()
	var errs []error
	if s.a != nil {
		errs = append(errs, s.a.Close(ctx))
	}
	if s.b != nil {
		errs = append(errs, s.b.leave(ctx))
	}
	if s.a != nil {
		errs = append(errs, s.checkClean(ctx), s.a.client.Close())
	}
	if s.server != nil {
		errs = append(errs, s.server.Close())
	}
	return errors.Join(errs...)
}

// checkClean checks that no key of this run is left. It uses A's client, which outlives A's runtime.
func (s *stage) checkClean(ctx context.Context) error {
	if len(s.used) == 0 {
		return nil
	}
	left, err := s.a.client.Exists(ctx, s.used...).Result()
	if err != nil {
		return fmt.Errorf("look for keys left behind: %w", err)
	}
	if left > 0 {
		return fmt.Errorf("%d keys of %s* are left in Redis", left, s.prefix)
	}
	fmt.Fprintln(s.out)
	s.say("-", "A and B are closed; none of their keys is left in Redis")
	return nil
}

// unexpected returns an error that says what should have happened, and that err happened instead. If err is nil, it says that there was no error.
func unexpected(err error, should string) error {
	if err == nil {
		return errors.New(should + ", but there was no error")
	}
	return fmt.Errorf("%s, but: %w", should, err)
}
