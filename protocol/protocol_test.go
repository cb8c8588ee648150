package protocol_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "orders", "a b", "ünïcode", "a:b:c", "{tag}", "a{tag}b", strings.Repeat("x", protocol.MaxName)} {
		assert.NoError(t, protocol.CheckName(good), "%q", good)
	}
	for bad, says := range map[string]string{
		"": "empty", strings.Repeat("x", protocol.MaxName+1): "513 bytes", "\xff": "UTF-8", "a\x00b": "control", "a\nb": "control",
		"a{": "braces", "a}": "braces", "}{": "braces", "{}": "braces", "a{}b": "braces", "{a}{b}": "braces", "{{a}}": "braces",
	} {
		err := protocol.CheckName(bad)
		assert.ErrorIs(t, err, protocol.ErrInvalid, "%q", bad)
		assert.ErrorContains(t, err, says, "%q", bad)
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	var none protocol.Owner
	assert.True(t, none.IsZero())
	assert.Empty(t, none.String())
	o := protocol.NewOwner("u", 7)
	assert.False(t, o.IsZero())
	assert.Equal(t, "u:7", o.String())
	assert.Equal(t, "u", o.Runtime())
	assert.Equal(t, o, protocol.NewOwner("u", 7), "owners are comparable")
}

func TestBusyError(t *testing.T) {
	t.Parallel()
	var err error = &protocol.BusyError{Name: "orders", Holder: "u:7", TTL: 1234567 * time.Microsecond}
	assert.ErrorIs(t, err, protocol.ErrNotAcquired)
	assert.NotErrorIs(t, err, protocol.ErrNotHeld)
	assert.Equal(t, `holdfast: acquire "orders": not acquired: held by u:7; its lease has 1.235s left, and may be renewed`, err.Error())
	assert.Equal(t, `holdfast: acquire "orders": not acquired: held by u:7 (this very runtime)`, (&protocol.BusyError{Name: "orders", Holder: "u:7", Local: true}).Error())
	assert.Equal(t, `holdfast: acquire "orders": not acquired: taken`, (&protocol.BusyError{Name: "orders"}).Error())
	assert.Equal(t, `holdfast: acquire "orders": not acquired: taken; its lease has 2s left, and may be renewed`,
		(&protocol.BusyError{Name: "orders", TTL: 2 * time.Second}).Error())
	assert.Equal(t, `holdfast: acquire "orders": not acquired: released by u:7, and kept WithAtLeast for another 2s`,
		(&protocol.BusyError{Name: "orders", Holder: "u:-7", TTL: 2 * time.Second}).Error())
}

func TestEvents_SayWhatHappenedToWhichLock(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	for _, e := range []protocol.Event{
		protocol.LeaseLost{Name: "orders", ID: "u:7", Reason: "expired"},
		protocol.RenewFailed{Name: "orders", ID: "u:7", Left: time.Second, Err: cause},
		protocol.ActorPanicked{Name: "orders", Value: "oops"},
		protocol.Unconfirmed{Name: "orders", Do: "release", Err: cause},
		protocol.RequestDropped{Name: "orders", Reason: "no sender"},
		protocol.SubscribeRefused{Name: "orders", Channel: "c", Err: cause},
		protocol.QueueLost{Name: "orders", ID: "u:7"},
	} {
		assert.Equal(t, "orders", e.Lock())
		assert.Contains(t, fmt.Sprint(e), `"orders"`)
	}
	for _, e := range []protocol.Event{
		protocol.Reconnected{Channels: 3}, protocol.CallbackPanicked{Value: "oops"}, protocol.EventsDropped{Count: 5},
		protocol.ActorPanicked{Value: "oops"}, protocol.RequestDropped{Reason: "oops"}, protocol.SubscribeRefused{Channel: "demands", Err: errors.New("oops")},
	} {
		assert.Empty(t, e.Lock())
		assert.Regexp(t, `3|oops|5`, fmt.Sprint(e))
		assert.NotContains(t, fmt.Sprint(e), `lock ""`)
	}
}

// TestEvents_AllHaveAText: every event has a String and a LogValue. Without these methods, the event would appear as a bare struct.
func TestEvents_AllHaveAText(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	require.NoError(t, err)
	methods := map[string][]string{} // for each method, the types that have it
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			methods[f.Name.Name] = append(methods[f.Name.Name], fmt.Sprint(f.Recv.List[0].Type))
		}
	}
	assert.Greater(t, len(methods["Lock"]), 9)
	assert.ElementsMatch(t, methods["Lock"], methods["String"])
	assert.ElementsMatch(t, methods["Lock"], methods["LogValue"])
}

func TestCheckError(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	denied := protocol.Finding{What: `user "app" may not call GET`, Why: "needed for latch", Remedy: "ACL SETUSER app +get"}
	policy := protocol.Finding{What: "maxmemory-policy is x", Why: "locks\nmay go", Remedy: "set it"}
	one := &protocol.CheckError{Findings: []protocol.Finding{denied}, Causes: []error{cause}}
	assert.EqualError(t, one, `holdfast: check: user "app" may not call GET: needed for latch; remedy: ACL SETUSER app +get`)
	assert.ErrorIs(t, one, cause)
	assert.EqualError(t, &protocol.CheckError{Findings: []protocol.Finding{policy}}, "holdfast: check: maxmemory-policy is x: locks may go; remedy: set it")
	assert.EqualError(t, &protocol.CheckError{Findings: []protocol.Finding{denied, denied, policy}}, `holdfast: check: 3 findings
- user "app" may not call GET: needed for latch
- user "app" may not call GET: needed for latch
- maxmemory-policy is x: locks may go; remedy: set it
all missing rights at once: ACL SETUSER app +get +get`)
	for n := range 60 {
		many := &protocol.CheckError{}
		for range n {
			many.Findings = append(many.Findings, denied)
		}
		lines := strings.Split(many.Error(), "\n")
		assert.LessOrEqual(t, len(lines), protocol.CheckLines)
		if n < 2 {
			continue
		}
		more := 0
		_, _ = fmt.Sscanf(lines[len(lines)-2], "- and %d more", &more)
		if more == 0 {
			assert.Len(t, lines, n+2, "all findings are listed")
		} else {
			assert.Len(t, lines, protocol.CheckLines)
			assert.Equal(t, n, len(lines)-3+more, "the other findings are counted")
		}
		assert.Equal(t, n, strings.Count(lines[len(lines)-1], "+get"), "the rule grants all missing rights")
	}
}
