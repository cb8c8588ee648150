package scripts_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/scripts"
)

// Each function that reads replies returns the contents of the reply or a legible error, even if the server replies nonsense. A reply that does
// not name the grant or the request grants nothing.
func FuzzReplies_AreReadOrRefused(f *testing.F) {
	for _, reply := range []string{
		"$-1\r\n", ":0\r\n", ":1\r\n", ":-1\r\n", ":1500\r\n", ":9223372036854775807\r\n", "$6\r\n5e0f:7\r\n", "$6\r\n5e0f:8\r\n", "+OK\r\n", "$0\r\n\r\n",
		"*3\r\n$6\r\n5e0f:7\r\n$1\r\n1\r\n$1\r\n9\r\n", "*3\r\n$6\r\n5e0f:7\r\n$1\r\n9\r\n$1\r\n1\r\n", // tokens, and tokens in the wrong order
		"*2\r\n:100\r\n$6\r\n5e0f:8\r\n", "*4\r\n:100\r\n$0\r\n\r\n:2\r\n$6\r\n5e0f:8\r\n", "*4\r\n:100\r\n$6\r\n5e0f:8\r\n:70\r\n:3\r\n", // busy, in a queue, and with a place
		"*2\r\n:1\r\n$6\r\n5e0f:8\r\n", "*1\r\n$6\r\n5e0f:7\r\n", "*2\r\n$6\r\n5e0f:7\r\n:1\r\n", "*2\r\n$6\r\n5e0f:7\r\n:2\r\n", // released, renewed
		"*3\r\n:100\r\n$6\r\n5e0f:7\r\n$1\r\n1\r\n", "*5\r\n:100\r\n$4\r\nmode\r\n$4\r\nread\r\n$6\r\n5e0f:7\r\n$1\r\nx\r\n", // inspected
		"*3\r\n*0\r\n*1\r\n$6\r\n5e0f:7\r\n$2\r\n17\r\n", "*1\r\n*1\r\n*1\r\n*0\r\n", "*2\r\n*0\r\n$1\r\nx\r\n",
		"*4\r\n$6\r\n5e0f:7\r\n$2\r\n10\r\n:5\r\n:1\r\n", "*4\r\n$6\r\n5e0f:7\r\n$3\r\n101\r\n:5\r\n:1\r\n", // counted
		"*0\r\n", "*-1\r\n", "*2\r\n$-1\r\n:1\r\n", "*1\r\n-ERR inside\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", ",nan\r\n", "(123456789012345678901234567890\r\n",
		"%1\r\n$1\r\na\r\n:1\r\n", "%1\r\n%0\r\n:1\r\n", "~1\r\n:1\r\n", ">1\r\n:1\r\n", "=5\r\ntxt:a\r\n", "!5\r\nERR a\r\n", "|1\r\n+a\r\n+b\r\n:1\r\n",
		"-ERR\r\n", "-LATE 1700000000000\r\n", "-LATE x\r\n", "-FOREIGN the key\r\n", "-WRONGTYPE \x01\r\n", "-NOSCRIPT No matching script.\r\n",
		"-ERR Error running script (call to f_5e0f): @user_script:24: WRONGTYPE Operation\r\n", "", "\r\n", "*1\r\n", "$5\r\nab\r\n", "?\r\n",
	} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, resp []byte) {
		if vast.Match(resp) {
			return
		}
		reply, err := replyOf(t, resp)
		if err != nil {
			checkError(t, err)
			return
		}
		for name, read := range readers {
			if grants, err := read(reply); err != nil {
				checkText(t, name, err)
			} else if grants && !strings.Contains(fmt.Sprint(reply), grant) {
				t.Fatalf("%s accepts %v as the reply about %s", name, reply, grant)
			}
		}
	})
}

const grant = "5e0f:7" // the grant or request of all replies

// readers are the package's functions that read replies. Each returns whether the reply grants something.
var readers = map[string]func(reply any) (grants bool, err error){
	"acquire": func(reply any) (bool, error) { a, err := scripts.ReadAcquired(reply, grant); return a.Granted, err },
	"release": func(reply any) (bool, error) { _, err := scripts.ReadReleased(reply); return false, err },
	"freed":   func(reply any) (bool, error) { _, err := scripts.ReadFreed(reply); return false, err },
	"pass":    func(reply any) (bool, error) { p, err := scripts.ReadPassed(reply, grant); return p.Held, err },
	"inspect": func(reply any) (bool, error) { _, err := scripts.ReadInspected(reply); return false, err },
	"renew": func(reply any) (bool, error) {
		grants := []string{grant, "5e0f:8"}
		gone, err := scripts.ReadRenewed(reply, grants)
		for _, i := range gone {
			_ = grants[i]
		}
		return err == nil, err
	},
	"read":  func(reply any) (bool, error) { return readCount(reply, scripts.SemaphoreRead, 1) },
	"take":  func(reply any) (bool, error) { return readCount(reply, scripts.SemaphoreAcquire, 2) },
	"count": func(reply any) (bool, error) { return readCount(reply, scripts.LatchCountDown, 1) },
}

func readCount(reply any, op *scripts.CountOp, callers int) (bool, error) {
	c, err := scripts.ReadCounted(reply, op, &scripts.CountTerms{Request: grant, Numbers: make([]int64, callers)})
	if err == nil && op.Way == scripts.Take && len(c.Served) != callers {
		return false, fmt.Errorf("%d of %d callers", len(c.Served), callers)
	}
	return err == nil, err
}

// checkError passes an error to every function that reads one, and checks the results.
func checkError(t *testing.T, err error) {
	if class := scripts.Classify(err); class == scripts.Done {
		t.Fatalf("%q is done", err)
	}
	if _, late := scripts.LateBy(err); late && !strings.HasPrefix(err.Error(), "LATE ") {
		t.Fatalf("%q is not late", err)
	}
	if explained := scripts.Explain(err); explained.Error() == "" && err.Error() != "" {
		t.Fatalf("%q is explained away", err)
	}
	_ = scripts.Reply(err)
}

// checkText checks that an error is readable as one line of a log.
func checkText(t *testing.T, name string, err error) {
	text := err.Error()
	if len(text) > 1000 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		t.Fatalf("%s: %q is not readable", name, text)
	}
}

// vast matches a reply that announces a huge length. The test leaves out such replies, because go-redis would allocate that much memory.
var vast = regexp.MustCompile(`[*%~>|$=!]\d{5}`)

// replyOf returns what go-redis returns for a script call if the server replies with these bytes.
func replyOf(t *testing.T, resp []byte) (any, error) {
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return &script{resp: resp}, nil },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer client.Close()
	cmd := redis.NewCmd(t.Context(), "evalsha", "5e0f", 0)
	_ = client.Process(t.Context(), cmd)
	reply, err := cmd.Result()
	if err == redis.Nil { //nolint:errorlint // go-redis returns it as it is
		return nil, nil
	}
	return reply, err
}

// script is a connection to a server that always gives the same reply to a script.
type script struct {
	resp    []byte
	waiting bytes.Buffer
}

func (s *script) Write(request []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(request), []byte("evalsha")) {
		s.waiting.Write(s.resp)
	} else {
		s.waiting.WriteString("-ERR unknown command\r\n") // HELLO: an old server
	}
	return len(request), nil
}

func (s *script) Read(into []byte) (int, error) {
	if s.waiting.Len() == 0 {
		return 0, io.EOF
	}
	return s.waiting.Read(into)
}

func (s *script) Close() error                     { return nil }
func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
