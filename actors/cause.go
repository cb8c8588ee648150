package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/scripts"
)

// causes turns the errors of go-redis into what a person can use who sees nothing else: which Redis, what to look at. The error
// stays reachable underneath. The client's passwords show in none of it.
type causes struct {
	redis   string // "Redis at host:port"
	cluster bool   // whose servers may send a call elsewhere
	secrets secrets
	last    atomic.Pointer[error] // why the latest batch did not reach Redis; nil: it did
}

var (
	errNoAnswer = timeout("no answer")
	errNotSent  = timeout("not sent")

	errNoAnswerYet = fmt.Errorf("%w from Redis yet", errNoAnswer)

	errFlushed = errors.New("the server forgets scripts faster than they can be loaded: somebody flushes them all the time")
)

// timeout is the error of what was not done in time, a net.Error.
type timeout string

func (e timeout) Error() string { return string(e) }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func causesOf(client redis.UniversalClient) *causes {
	c := &causes{redis: "Redis"}
	switch client := client.(type) {
	case *redis.Client:
		o := client.Options()
		c.secrets = newSecrets(login{[]string{o.Addr}, o.Username, o.Password})
		if strings.ContainsAny(o.Addr, ":/") { // else it is a word that go-redis has made up
			c.redis = "Redis at " + c.secrets.conceal(o.Addr)
		}
	case *redis.ClusterClient:
		o := client.Options()
		c.secrets = newSecrets(login{o.Addrs, o.Username, o.Password})
		c.redis, c.cluster = "the cluster", true
	}
	return c
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// explain adds to an error what its text does not say. What the server replied stays in front: others look at how it begins.
func (c *causes) explain(err error) error {
	if err == nil || err == redis.Nil { //nolint:errorlint // go-redis returns it as it is
		return err
	}
	err = c.secrets.concealError(err)
	switch {
	case isReply(err):
		return c.explainReply(err)
	case errors.Is(err, redis.ErrClosed), errors.Is(err, net.ErrClosed):
		return fmt.Errorf("the Redis client was closed before the runtime: %w", err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("all connections of the Redis client are in use: %w", err)
	case closedByPeer(err):
		return fmt.Errorf("%s closed the connection (restarted, or maxclients reached?): %w", c.redis, err)
	case isTimeout(err):
		return fmt.Errorf("%s did not answer in time: %w", c.redis, err)
	}
	return err
}

// scriptPlace is where in a script the server refused to go on: of use to nobody but who writes scripts.
var scriptPlace = regexp.MustCompile(`\s+script: [0-9a-f]{40}, on @user_script:\d+\.?$`)

// abridged is an error with less text.
type abridged struct {
	text  string
	cause error
}

func (e abridged) Error() string { return e.text }
func (e abridged) Unwrap() error { return e.cause }

func (c *causes) explainReply(err error) error {
	if text := err.Error(); scriptPlace.MatchString(text) {
		err = abridged{scriptPlace.ReplaceAllString(text, ""), err}
	}
	hint := ""
	switch code, _, _ := strings.Cut(scripts.Reply(err), " "); code {
	case "MOVED", "ASK":
		if c.cluster {
			break
		}
		hint = "the server is part of a cluster, the client is for a single server"
	case "READONLY":
		hint = "this is a replica, locks need its master"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}

// advise is explain for those who are not in the middle of a check.
func (c *causes) advise(err error) error {
	if err == nil {
		return nil
	}
	if err = c.explain(err); isDenied(err) {
		return fmt.Errorf("%w (Runtime.Check names every missing right)", err)
	}
	return err
}

func isDenied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(scripts.Reply(reply), "NOPERM ")
}

// closedByPeer recognizes the ways in which it shows that the other end is gone. A server that has too many clients accepts a
// connection, says so and closes it; go-redis takes the words for the answer to HELLO and goes on.
func closedByPeer(err error) bool {
	for _, sign := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

// note remembers why a batch did not reach Redis, until one does.
func (c *causes) note(err error) {
	switch {
	case scripts.Reached(err):
		if c.last.Load() != nil {
			c.last.Store(nil)
		}
	case errors.Is(err, errNoAnswer), errors.Is(err, context.Canceled): // ours
	default:
		failed := err // err itself would be on the heap each time
		c.last.Store(&failed)
	}
}

// noAnswer is the error of a call that was sent, or may have been, and not answered by its deadline.
func (c *causes) noAnswer() error {
	return c.since(fmt.Errorf("%w from %s in time", errNoAnswer, c.redis))
}

// notSent is the error of a call that could not be sent by its deadline.
func (c *causes) notSent() error {
	return c.since(fmt.Errorf("%w: calls before it still wait for %s or for a free connection", errNotSent, c.redis))
}

// since adds why the attempts before failed: it tells more.
func (c *causes) since(err error) error {
	if last := c.last.Load(); last != nil {
		return fmt.Errorf("%w; before that: %w", err, *last)
	}
	return err
}
