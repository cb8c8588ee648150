package scripts

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/protocol"
)

// Class says whether a call was executed, as far as this is known from its answer, or from the lack of an answer.
type Class uint8

// The classes of an answer.
const (
	Done     Class = iota // executed, the reply has the result
	Refused               // certainly not executed; the cause may be temporary
	Rejected              // refused, and a retry would not help. If a command of the script was refused, the commands before it may have been executed
	Unknown               // executed or not, or still in flight
)

// String returns the word for the class in logs and transcripts.
func (c Class) String() string {
	return [...]string{"done", "refused", "rejected", "unknown"}[c]
}

// These are the codes of temporary refusals by the server: nothing of the script was executed. An unhealthy server sends the codes in ofServer to all
// clients, or to all clients that write. WRONGPASS and NOAUTH are temporary, too: during the rotation of a password, the server sends them until the
// rotation is complete. The codes in ofCall concern a single call.
var (
	ofServer = []string{"LOADING", "READONLY", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "WRONGPASS", "NOAUTH"}
	ofCall   = []string{"NOSCRIPT", "TRYAGAIN", "MOVED", "ASK", "LATE"}
)

// Classify sorts an error of go-redis, or nil, into its class.
func Classify(err error) Class {
	if err == nil || err == redis.Nil { //nolint:errorlint // go-redis returns it unwrapped
		return Done
	}
	return classify(err)
}

func classify(err error) Class {
	var server redis.Error
	var network *net.OpError
	switch {
	case errors.Is(err, redis.ErrClosed):
		return Rejected
	case errors.As(err, &server):
		return classifyServer(err.Error())
	case errors.As(err, &network) && network.Op == "dial",
		errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return Refused
	}
	return Unknown
}

func classifyServer(text string) Class {
	if strings.Contains(text, "unknown subcommand 'setinfo'") {
		return Unknown // the connection is out of step: an older server gave this reply to the handshake of go-redis, not to the call
	}
	if unwell(text) || slices.Contains(ofCall, codeOf(text)) {
		return Refused
	}
	return Rejected
}

func codeOf(text string) string {
	code, _, _ := strings.Cut(replied(text), " ")
	return code
}

func unwell(text string) bool {
	return slices.Contains(ofServer, codeOf(text)) || strings.Contains(text, "max number of clients")
}

// Reached reports whether the answer to a call shows that the server is working. A network error, or a refusal that all clients get, does
// not show this.
func Reached(err error) bool { return Classify(err) == Done || refusedAlone(err) }

// refusedAlone reports whether the server has refused this call, but serves other calls.
func refusedAlone(err error) bool {
	var server redis.Error
	return errors.As(err, &server) && !unwell(err.Error())
}

// inScript matches how servers before Redis 7 report the refusal of a command in a script.
var inScript = regexp.MustCompile(`^ERR Error running script .*@user_script: ?\d+: -?([A-Z]+ .*)`)

// Reply returns the server's reply, beginning with its code. The code is the same for all versions of the server, even for errors in
// scripts.
func Reply(err error) string { return replied(err.Error()) }

// IsDenied reports whether the server has refused a call because the user lacks a right.
func IsDenied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(Reply(reply), "NOPERM ")
}

func replied(text string) string {
	if found := inScript.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	for _, denied := range []string{"can't run this command", "can't access at least one of the", "can't publish to the channel"} {
		if strings.Contains(text, denied) {
			return "NOPERM " + text // as for a command outside a script
		}
	}
	return text
}

// Scattered reports whether a script was refused because its keys are on two masters, while their slot moves from one to the other.
func Scattered(err error) bool { return err != nil && codeOf(err.Error()) == "TRYAGAIN" }

// Explain makes a server's error readable. For a FOREIGN or WRONGTYPE error it returns an error that wraps ErrForeignKey. A LATE error gets a text
// that says what happened. Other errors are returned unchanged.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if _, late := LateBy(err); late {
		return lateError{err}
	}
	text := err.Error()
	if foreign, ok := strings.CutPrefix(text, "FOREIGN "); ok {
		return fmt.Errorf("%w: %s", protocol.ErrForeignKey, foreign)
	}
	if strings.Contains(text, "WRONGTYPE") {
		return fmt.Errorf("%w: %w", protocol.ErrForeignKey, err)
	}
	return err
}

// Explain does the same as the function Explain. The call must be an acquire, and err its error. If the key may be a lock of another library, the
// text also mentions Options.Migrating. With this option, the acquire would wait for that lock.
func (c *Call) Explain(err error) error {
	err = Explain(err)
	if c.Script != nil && c.Script.Migrating != nil && errors.Is(err, protocol.ErrForeignKey) && strings.Contains(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w (a lock of redsync or redislock? see Options.Migrating)", err)
	}
	return err
}

// keyOfType matches the line of a script's header that says which type a key has.
var keyOfType = regexp.MustCompile(`(?m)^-- KEYS\[(\d)\] \w+ +(string|hash|list|zset) `)

// WithKeys adds the keys of the call to a WRONGTYPE error, because the server does not say which key has the wrong type. With each key, it
// names the type that the key should have, as stated in the script's header. Other errors are returned unchanged.
func (c *Call) WithKeys(err error) error {
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		return err
	}
	var keys []string
	for _, found := range keyOfType.FindAllStringSubmatch(c.Script.Source, -1) {
		if n := int(found[1][0] - '0'); n <= len(c.Keys()) { // a header may list a key that is passed only in a bundle: see fair_release.lua
			keys = append(keys, fmt.Sprintf("%q a %s", c.Keys()[n-1], found[2]))
		}
	}
	if len(keys) == 0 {
		return err
	}
	return fmt.Errorf("%w (is %s?)", err, strings.Join(keys, ", "))
}

// lateError is the error text for a LATE refusal.
type lateError struct{ reply error }

func (lateError) Error() string { return "it reached Redis too late to be executed" }

func (e lateError) Unwrap() error { return e.reply }

// LateBy reads the server time in ms from a LATE refusal.
func LateBy(err error) (ms int64, ok bool) {
	if err == nil {
		return 0, false
	}
	rest, found := strings.CutPrefix(err.Error(), "LATE ")
	if !found {
		return 0, false
	}
	ms, parseErr := strconv.ParseInt(rest, 10, 64)
	return ms, parseErr == nil
}
