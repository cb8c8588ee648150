package redisnode

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/scripts"
)

// all returns an error and all errors that it wraps.
func all(err error) []error {
	found := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // each has its turn
		for _, e := range several.Unwrap() {
			found = append(found, all(e)...)
		}
	} else if e := errors.Unwrap(err); e != nil {
		found = append(found, all(e)...)
	}
	return found
}

func assertHidden(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for _, e := range all(err) {
		for _, secret := range secrets {
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", e, e, e), secret)
		}
	}
}

func TestSecrets_AreHidden(t *testing.T) {
	t.Parallel()
	const password = `s3cr3t "/%@`
	for addr, shown := range map[string]string{
		"db:6379":                    "Redis at db:6379",
		"redis://app:hunter2@db:1/0": "Redis at redis://***@db:1/0",
		"app:hunter2@db:1":           "Redis at ***@db:1",
		"hunter2@db:1":               "Redis at ***@db:1",
		"FailoverClient":             "Redis",
		"/run/redis.sock":            "Redis at /run/redis.sock",
	} {
		c := causesFor(t, addr, password)
		assert.Equal(t, shown, c.Name)
		for _, text := range []string{
			"ERR unknown command `hello`, with args beginning with: `" + password + "`",
			fmt.Sprintf("bad %q", password), "redis://x:s3cr3t+%22%2F%25%40@db", "dial " + addr, "https://me:hunter2@x/", "EOF",
			"the vault says: " + password + ".", password,
		} {
			for _, err := range []error{
				errors.New(text), refusal(text), fmt.Errorf("wrapped: %w", errors.New(text)), fmt.Errorf("wrapped: %w", refusal(text)),
				fmt.Errorf("%w, %w", io.EOF, errors.New(text)),
			} {
				got := c.ExplainWithHint(err)
				assertHidden(t, got, "s3cr3t", "hunter2")
				assert.Equal(t, IsReply(err), IsReply(got), "%v", got)
				assert.Equal(t, errors.Is(err, io.EOF), errors.Is(got, io.EOF), "%v", got)
			}
		}
	}
}

func TestSecrets_OfClusters(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1", "redis://app:hunter2@b:1"}, Password: "s3cr3t"})
	defer client.Close()
	c := ErrorsOf(client)
	assert.Equal(t, "the cluster", c.Name)
	assert.Equal(t, "dial redis://***@b:1: ***", c.Explain(errors.New("dial redis://app:hunter2@b:1: s3cr3t")).Error())
	assert.Equal(t, "MOVED 1 b:1", c.Explain(refusal("MOVED 1 b:1")).Error(), "without the hint that the client is for a single server")
}

// passwords are good and bad ones.
var passwords = []string{
	"p", "a", "1", "'", "ERR", "LATE", "FOREIGN", "NOPERM", "redis", "db", "db1", "db-1", "app", "app7", "user", "password", "permissions",
	"1700000000000", "can't", "connection refused", "hunter2", "swordfish", "wV3kq9Zr0TnL5xQe8YbH2mJd", "abcdefghijklmnopqrstuvwxyz", `a"b/c%d e@f:g`,
}

// Whatever the password is, the errors have the same text as for a client without a password, and the engine classifies them in the same way.
func TestSecrets_ChangeNothingElse(t *testing.T) {
	t.Parallel()
	sha := strings.Repeat("0123456789", 4)
	refused := func(addr string) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: addr, Server: "127.0.0.53:53", IsNotFound: true}}
	}
	for _, host := range []string{"db", "redis", "db1", "db-1.example", "redis.internal", "p"} {
		errs := []error{
			refusal("ERR Error running script (call to f_" + sha + "): @user_script:3: NOPERM this user has no permissions"),
			refusal("NOPERM User app has no permissions to run the 'get' command"), refusal("LATE 1700000000000"),
			refusal("FOREIGN the key holds something else than a number of permits"), refusal("MOVED 1 " + host + ":6379"),
			refusal("WRONGPASS invalid username-password pair or user is disabled."), refusal("READONLY You can't write against a read only replica."),
			refusal("NOSCRIPT No matching script. Please use EVAL."), refusal("WRONGTYPE Operation against a key holding the wrong kind of value"),
			refused(host), refused("app." + host), errors.New("redis: connection pool: failed to dial after 5 attempts"), io.EOF,
			fmt.Errorf("dial tcp %s:6379: connect: connection refused", host), redis.ErrPoolTimeout,
		}
		open := newSecrets(login{addrs: []string{host + ":6379"}})
		for _, password := range passwords {
			for _, user := range []string{"", "app", "app7", password} {
				s := newSecrets(login{[]string{host + ":6379"}, user, password})
				for _, err := range errs {
					if password == "connection refused" && strings.Contains(err.Error(), password) {
						continue // this password cannot be distinguished from ordinary text
					}
					got := s.concealError(err)
					assert.Equal(t, open.conceal(err.Error()), got.Error(), "%q %q", password, host)
					assert.Equal(t, scripts.Classify(err), scripts.Classify(got))
					assert.Equal(t, scripts.Reply(err), scripts.Reply(got))
				}
			}
		}
	}
}

// Where an error quotes a password, the password is hidden, however short or common it is.
func TestSecrets_AreHiddenWhereTheyAreTold(t *testing.T) {
	t.Parallel()
	for _, password := range passwords {
		for _, host := range []string{"db:6379", "redis:6379", password + ":6379"} {
			if strings.Contains(host, "@") {
				continue // there is no such host
			}
			for _, user := range []string{"", "app", password} {
				s := newSecrets(login{[]string{host}, user, password})
				for _, command := range []string{"hello", "AUTH"} {
					text := fmt.Sprintf("ERR unknown command '%s', with args beginning with: ", command)
					echo := fmt.Sprintf("'3' 'auth' '%s' '%s' ", user, password)
					assert.Equal(t, text+"***", s.concealError(refusal(text+echo)).Error(), "%q", password)
				}
				assert.Equal(t, `login with "***" failed`, s.concealError(fmt.Errorf("login with %q failed", password)).Error())

				addr := user + ":" + password + "@" + host
				s = newSecrets(login{addrs: []string{addr}})
				err := s.concealError(&net.OpError{Op: "dial", Net: "tcp", Err: &net.AddrError{Err: "too many colons in address", Addr: addr}})
				assert.Equal(t, "dial tcp: address ***@"+host+": too many colons in address", err.Error(), "%q", addr)
				var op *net.OpError
				require.ErrorAs(t, err, &op)
				assertHidden(t, op, ":"+password+"@")
				var bad *net.AddrError
				require.ErrorAs(t, err, &bad)
				assert.Equal(t, "***@"+host, bad.Addr)
			}
		}
	}
}

func TestSecrets_StandingAlone(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"hunter2", "wV3kq9Zr0TnL5xQe8YbH2mJd", "abcdefghijklmnopqrstuvwxyz", "/Xk9!"} {
		s := newSecrets(login{[]string{"db:6379"}, "app", password})
		for text, shown := range map[string]string{
			"the vault says " + password:          "the vault says ***",
			"password=" + password + ", user=app": "password=***, user=app",
			password + ": denied":                 "***: denied",
			"it is " + password + ".":             "it is ***.",
			"it is " + password + " " + password:  "it is *** ***",
		} {
			assert.Equal(t, shown, s.conceal(text))
		}
	}
	s := newSecrets(login{[]string{"db:6379"}, "app", "hunter2"})
	for _, other := range []string{"hunter22", "xhunter2", "hunter2.example", "host-hunter2", "hunter2-host", "a.hunter2", "hunter2_x", "öhunter2"} {
		assert.Equal(t, other, s.conceal(other), "another word, or a host")
	}
}
