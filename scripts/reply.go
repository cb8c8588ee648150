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

// Class says what is known about a call after its answer, or after the lack of one.
type Class uint8

// The classes of an answer.
const (
	Done     Class = iota // executed, the reply says how
	Refused               // certainly not executed; the cause may pass
	Rejected              // certainly not executed, and trying again would not help
	Unknown               // executed or not, or still on its way
)

// String is the word for the class in logs and transcripts.
func (c Class) String() string {
	return [...]string{"done", "refused", "rejected", "unknown"}[c]
}

// The server's refusals that end by themselves; nothing of the script ran. A server that is unwell gives ofServer to everybody, or to
// everybody who writes: also WRONGPASS and NOAUTH, which pass when a password is rotated. ofCall are about one call.
var (
	ofServer = []string{"LOADING", "READONLY", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "WRONGPASS", "NOAUTH"}
	ofCall   = []string{"NOSCRIPT", "TRYAGAIN", "MOVED", "ASK", "LATE"}
)

// Classify sorts an error of go-redis, or nil, into its class.
func Classify(err error) Class {
	if err == nil || err == redis.Nil { //nolint:errorlint // go-redis returns it as it is
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
		return Unknown // what older servers reply when go-redis connects: the connection is out of step
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

// Reached reports whether the answer to a call shows that the server serves. It does not after an error on the way, or when the server
// refuses everybody.
func Reached(err error) bool {
	var server redis.Error
	switch {
	case Classify(err) == Done:
		return true
	case !errors.As(err, &server):
		return false
	}
	return !unwell(err.Error())
}

// inScript is how servers before Redis 7 tell what a command in a script was refused with.
var inScript = regexp.MustCompile(`^ERR Error running script .*@user_script: ?\d+: -?([A-Z]+ .*)`)

// Reply is what the server has replied, beginning with its code. A script's error says the same in every version of the server.
func Reply(err error) string { return replied(err.Error()) }

// IsDenied reports whether the server has refused because of the user's rights.
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
			return "NOPERM " + text // as for a command outside of a script
		}
	}
	return text
}

// Scattered reports whether a script was refused because its keys are on two masters: their slot is on its way from one to the other.
func Scattered(err error) bool { return err != nil && codeOf(err.Error()) == "TRYAGAIN" }

// Explain wraps a server's error in the sentinel that it stands for, if there is one, and says in words what a script refused.
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

// lateError is a LATE refusal in words.
type lateError struct{ reply error }

func (lateError) Error() string { return "it reached Redis too late to be executed" }

func (e lateError) Unwrap() error { return e.reply }

// LateBy reads the server time, in ms, out of a LATE refusal.
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
