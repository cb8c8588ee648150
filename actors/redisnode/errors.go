package redisnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/actors/rpc"
	"github.com/holdfast-go/holdfast/scripts"
)

// Errors adds to go-redis's errors what the reader of an error needs to know: which Redis, and what to check. errors.Is and errors.As still
// find the original error. No text contains a password of the client.
type Errors struct {
	Name    string // "Redis at host:port", "Redis" or "the cluster"
	cluster bool   // redirections are normal
	closes  string // why a server closes a connection
	secrets secrets
	last    atomic.Pointer[error] // the error that Remember has kept, or nil
}

// ErrorsOf returns the Errors of a client.
func ErrorsOf(client redis.UniversalClient) *Errors {
	c := &Errors{Name: "Redis", closes: "restarted, or maxclients reached"}
	var security *tls.Config
	switch client := client.(type) {
	case *redis.Client:
		o := client.Options()
		security = o.TLSConfig
		c.secrets = newSecrets(login{[]string{o.Addr}, o.Username, o.Password})
		if strings.ContainsAny(o.Addr, ":/") { // an Addr without these characters is a placeholder of go-redis, such as FailoverClient
			c.Name = "Redis at " + c.secrets.conceal(o.Addr)
		}
	case *redis.ClusterClient:
		o := client.Options()
		security = o.TLSConfig
		c.secrets = newSecrets(login{o.Addrs, o.Username, o.Password})
		c.Name, c.cluster = "the cluster", true
	}
	if security != nil && len(security.Certificates) == 0 && security.GetClientCertificate == nil {
		// If the server requires a client's certificate, it sends an alert with the reason and closes the connection. In TLS 1.3, the client has
		// already sent its first command by then, so it may get the error of a closed connection and never read the alert.
		c.closes = "restarted, maxclients reached, or a client's certificate required"
	}
	return c
}

// IsReply reports whether an error is a reply of the server.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// Explain adds to an error what its text lacks. The text of a reply stays in front: it begins with the code by which the engine
// recognizes the reply.
func (c *Errors) Explain(err error) error {
	if err == nil || err == redis.Nil { //nolint:errorlint // go-redis does not wrap it
		return err
	}
	err = c.secrets.concealError(err)
	switch {
	case IsReply(err):
		return c.explainReply(err)
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("the Redis client was closed before the runtime: %w", err)
	case errors.Is(err, net.ErrClosed): // a client for Sentinel closes its connections to the old master
		return fmt.Errorf("the Redis client closed the connection (was it closed, or did the master change?): %w", err)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("all connections of the Redis client are in use: %w", err)
	case closedByPeer(err):
		return fmt.Errorf("%s closed the connection (%s?): %w", c.Name, c.closes, err)
	case IsTimeout(err):
		return fmt.Errorf("%s did not answer in time: %w", c.Name, err)
	}
	return err
}

// scriptPlace matches the part of an error that says where in a script the server stopped. That helps only the authors of scripts, so it is removed.
var scriptPlace = regexp.MustCompile(`\s+script: [0-9a-f]{40}, on @user_script:\d+\.?`)

// abridged is an error with a shorter text.
type abridged struct {
	text  string
	cause error
}

func (e abridged) Error() string { return e.text }
func (e abridged) Unwrap() error { return e.cause }

func (c *Errors) explainReply(err error) error {
	if text := err.Error(); scriptPlace.MatchString(text) {
		err = abridged{scriptPlace.ReplaceAllString(text, ""), err}
	}
	var hint error
	switch code, _, _ := strings.Cut(scripts.Reply(err), " "); code {
	case "MOVED", "ASK":
		if !c.cluster {
			hint = ErrInCluster
		}
	case "READONLY":
		hint = errReplica
	}
	if hint == nil {
		return err
	}
	return fmt.Errorf("%w (%w)", err, hint)
}

// ErrInCluster says that a client for a single server cannot reach the master of a key.
var ErrInCluster = errors.New("the server is part of a cluster, the client is for a single server")

var errReplica = errors.New("this is a replica, locks need its master")

// ExplainWithHint explains an error as Explain does, and mentions Runtime.Check and Election.Check where that helps.
func (c *Errors) ExplainWithHint(err error) error {
	if err == nil {
		return nil
	}
	if err = c.Explain(err); scripts.IsDenied(err) {
		return fmt.Errorf("%w (Check names every missing right)", err)
	}
	return err
}

// RecoverTo is deferred where the runtime calls go-redis on a goroutine of its own. If the user's client panics (in a hook, or in a function of the
// client's options), RecoverTo turns the panic into an error.
func RecoverTo(err *error) {
	if value := recover(); value != nil {
		*err = Panicked(value)
	}
}

// Panicked returns the error for a panic in the user's client.
func Panicked(value any) error { return fmt.Errorf("the Redis client panicked: %v", value) }

// IsTimeout reports whether an error is a timeout.
func IsTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// IsNoScript reports whether the server does not know a script, so that it has to be loaded.
func IsNoScript(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") }

// closedByPeer recognizes the errors of a connection that the server has closed. A server with too many clients accepts a connection, writes an error
// and closes the connection. go-redis takes that error for the reply to HELLO and continues, so the engine sees only that the connection was closed.
func closedByPeer(err error) bool {
	for _, sign := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

// Remember gets the error of a batch, or nil, and reports whether the batch has reached Redis. If the batch has not reached Redis, Remember keeps
// the error until another batch has. It does not keep the engine's own errors, which say nothing about the cause.
func (c *Errors) Remember(err error) (reached bool) {
	switch {
	case err == nil, scripts.Reached(err):
		if c.last.Load() != nil {
			c.last.Store(nil)
		}
		return true
	case errors.Is(err, rpc.ErrNoAnswer), errors.Is(err, context.Canceled): // these errors were made by the engine itself
	default:
		failed := err // a copy, so that err is not moved to the heap at each call
		c.last.Store(&failed)
	}
	return false
}

// NoAnswer returns the error of a call that was sent, or may have been sent, and has no answer at its deadline.
func (c *Errors) NoAnswer() error {
	return c.WithLast(fmt.Errorf("%w from %s in time", rpc.ErrNoAnswer, c.Name))
}

// NotSent returns the error of a call that has waited too long to be sent.
func (c *Errors) NotSent() error {
	return c.WithLast(fmt.Errorf("%w: calls before it still wait for %s or for a free connection", rpc.ErrNotSent, c.Name))
}

// WithLast adds the error that Remember has kept, which says more about the cause.
func (c *Errors) WithLast(err error) error {
	if last := c.Last(); last != nil {
		return fmt.Errorf("%w; before that: %w", err, last)
	}
	return err
}

// Last returns the error that Remember has kept, or nil if it has kept none.
func (c *Errors) Last() error {
	if last := c.last.Load(); last != nil {
		return *last
	}
	return nil
}
