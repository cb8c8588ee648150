package scripts_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

func TestClassify(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for err, want := range map[error]scripts.Class{
		nil:                                    scripts.Done,
		redis.Nil:                              scripts.Done,
		redis.ErrClosed:                        scripts.Rejected,
		redis.ErrPoolTimeout:                   scripts.Refused,
		dial:                                   scripts.Refused,
		fmt.Errorf("wrapped: %w", error(dial)): scripts.Refused,
		&net.OpError{Op: "read", Err: io.EOF}:  scripts.Unknown,
		io.EOF:                                 scripts.Unknown,
		io.ErrUnexpectedEOF:                    scripts.Unknown,
		errors.New("anything else"):            scripts.Unknown,
		serverError("LOADING Redis is loading the dataset in memory"):          scripts.Refused,
		serverError("READONLY You can't write against a read only replica."):   scripts.Refused,
		serverError("BUSY Redis is busy running a script."):                    scripts.Refused,
		serverError("NOSCRIPT No matching script."):                            scripts.Refused,
		serverError("MASTERDOWN Link with MASTER is down"):                     scripts.Refused,
		serverError("CLUSTERDOWN The cluster is down"):                         scripts.Refused,
		serverError("TRYAGAIN Multiple keys request during rehashing of slot"): scripts.Refused,
		serverError("MOVED 3999 127.0.0.1:6381"):                               scripts.Refused,
		serverError("ASK 3999 127.0.0.1:6381"):                                 scripts.Refused,
		serverError("NOREPLICAS Not enough good replicas to write."):           scripts.Refused,
		serverError("MISCONF Redis is configured to save RDB snapshots"):       scripts.Refused,
		serverError("LATE 1700000000000"):                                      scripts.Refused,
		serverError("ERR max number of clients reached"):                       scripts.Refused,
		serverError("WRONGPASS invalid username-password pair"):                scripts.Refused,
		serverError("NOAUTH Authentication required."):                         scripts.Refused,
		serverError("NOPERM this user has no permissions"):                     scripts.Rejected,
		serverError("OOM command not allowed when used memory > 'maxmemory'."): scripts.Rejected,
		serverError("WRONGTYPE Operation against a key"):                       scripts.Rejected,
		serverError("FOREIGN the key holds a read/write lock"):                 scripts.Rejected,
		serverError("ERR unknown command 'evalsha'"):                           scripts.Rejected,
		serverError("ERR unknown subcommand 'setinfo'. Try CLIENT HELP."):      scripts.Unknown,
		// how servers before Redis 7 refuse a command in a script
		serverError("ERR Error running script (call to f_5e0f): @user_script:24: @user_script: 24: -READONLY You can't write against a read only replica."): scripts.Refused,
		serverError("ERR Error running script (call to f_5e0f): @user_script:24: -OOM command not allowed when used memory > 'maxmemory'."):                 scripts.Rejected,
		serverError("ERR Error running script (call to f_5e0f): @user_script:24: WRONGTYPE Operation against a key"):                                        scripts.Rejected,
	} {
		assert.Equal(t, want, scripts.Classify(err), "%v", err)
	}
}

func TestReached(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		nil:       true,
		redis.Nil: true,
		serverError("FOREIGN the key holds something else"):                                               true,
		serverError("TRYAGAIN Multiple keys request during rehashing of slot"):                            true,
		serverError("LATE 1700000000000"):                                                                 true,
		serverError("LOADING Redis is loading the dataset in memory"):                                     false,
		serverError("NOAUTH Authentication required."):                                                    false,
		serverError("ERR max number of clients reached"):                                                  false,
		serverError("ERR Error running script (call to f_5e0f): @user_script:24: -READONLY You can't w."): false,
		io.EOF: false,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}: false,
	} {
		assert.Equal(t, want, scripts.Reached(err), "%v", err)
	}
}

// Redis does not say which key has the wrong type, so WithKeys names all keys of the call. It does not name the channels and prefixes that the script
// also gets in KEYS. The error still begins with its code.
func TestWithKeys_NamesTheKeysOfTheCall(t *testing.T) {
	t.Parallel()
	wrong := serverError("WRONGTYPE Operation against a key")
	for want, call := range map[string]scripts.Call{
		`WRONGTYPE Operation against a key (is "a" a hash?)`:                                    scripts.Lock.Release(site, "a", scripts.Terms{}),
		`WRONGTYPE Operation against a key (is "a" a string, "{a}:timeout" a zset?)`:            scripts.Permit.Release(site, "a", scripts.Terms{}),
		`WRONGTYPE Operation against a key (is "a" a hash, "{a}:g:rwlock_timeout:1" a string?)`: scripts.ReadLock.Release(site, "a", scripts.Terms{Grant: "g"}),
		`WRONGTYPE Operation against a key (is "a" a hash, "holdfast_leader:{a}" a hash?)`:      scripts.ReadLeader("a"),
		`WRONGTYPE Operation against a key`:                                                     scripts.Lock.Renew(site, []string{"a"}, []string{"b"}, 0),
	} {
		err := call.WithKeys(wrong)
		assert.EqualError(t, err, want)
		assert.Equal(t, scripts.Rejected, scripts.Classify(err))
		assert.ErrorIs(t, scripts.Explain(err), protocol.ErrForeignKey)
	}
	call := scripts.ReadLeader("a")
	assert.NoError(t, call.WithKeys(nil))
	assert.Equal(t, serverError("OOM"), call.WithKeys(serverError("OOM")))
}

func TestReply_BeginsWithTheCode(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]string{
		"BUSY Redis is busy running a script.":                                                                       "BUSY",
		"READONLY You can't write. script: 5e0f, on @user_script:24.":                                                "READONLY",
		"ERR Error running script (call to f_5e0f): @user_script:24: @user_script: 24: -NOREPLICAS Not enough":       "NOREPLICAS",
		"ERR Error running script (call to f_5e0f): @user_script:24: WRONGTYPE Operation against a key":              "WRONGTYPE",
		"ERR The user executing the script can't run this command or subcommand":                                     "NOPERM",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments": "NOPERM",
		"ERR The user executing the script can't publish to the channel mentioned in the command":                    "NOPERM",
		"ERR something else": "ERR",
	} {
		got, _, _ := strings.Cut(scripts.Reply(serverError(text)), " ")
		assert.Equal(t, code, got, text)
	}
}
