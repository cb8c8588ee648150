package counter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/internal/machinetest"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// TestCountTranscripts plays testdata/*.txt: the messages that a counter's actor receives, with their times, and its decisions. The files are
// written like those of package lock (TestTranscripts). A case is about a semaphore unless its policy says latch.
func TestCountTranscripts(t *testing.T) {
	machinetest.PlayAll(t, "testdata/*.txt", func(t *testing.T, title string) machinetest.Transcript { return newCountPlayer(t, title) })
}

// countOps maps the words of the transcripts to operations.
var countOps = map[string]*scripts.CountOp{
	"acquire": scripts.SemaphoreAcquire, "release": scripts.SemaphoreRelease, "add": scripts.SemaphoreAdd, "drain": scripts.SemaphoreDrain,
	"set": scripts.SemaphoreTrySet, "read": scripts.SemaphoreRead, "delete": scripts.SemaphoreDelete,
	"wait": scripts.LatchWait, "count-down": scripts.LatchCountDown,
	"undo": scripts.SemaphoreAcquire.Undo, "forget": scripts.Forget,
}

func wordOf(op *scripts.CountOp) string {
	for word, other := range countOps {
		if op == other {
			return word
		}
	}
	return op.Word
}

// countPlayer plays one case.
type countPlayer struct {
	machinetest.Player

	state    *State
	checker  *countChecker
	requests map[string]*wait.Request
	names    map[*wait.Request]string
	calls    []*countCall // on their way
	breakAt  int          // the step panics when it makes the id with this number, counted from now; 0 for no panic
	sent     map[*countCall]time.Duration
}

func newCountPlayer(t *testing.T, title string) *countPlayer {
	p := &countPlayer{
		Player:   machinetest.Player{T: t, Title: title},
		requests: map[string]*wait.Request{}, names: map[*wait.Request]string{}, sent: map[*countCall]time.Duration{},
	}
	p.Player.SetPolicy(nil)
	p.countPolicy()
	p.state = New(&p.Policy, &lease.Address{Kind: scripts.Semaphore, Name: "orders", Raw: "orders"})
	p.checker = newCountChecker(p.state)
	return p
}

// countPolicy sets a policy that makes ids r1, r2, ... and panics at the id that "break" has chosen.
func (p *countPlayer) countPolicy() {
	ids := 0
	p.Policy.NewID = func() string {
		if p.breakAt--; p.breakAt == 0 {
			panic("no id")
		}
		ids++
		return "r" + strconv.Itoa(ids)
	}
}

// SetPolicy takes the options of transcripts of locks, and an option of its own: latch.
func (p *countPlayer) SetPolicy(options []string) {
	latch := slices.Index(options, "latch")
	if latch >= 0 {
		options = slices.Delete(options, latch, latch+1)
		p.state.Address = &lease.Address{Kind: scripts.CountDownLatch, Name: "orders", Raw: "orders"}
	}
	p.Player.SetPolicy(options)
	p.countPolicy()
}

func (p *countPlayer) Play(line string) {
	verb, a := p.Read(line, p.checker.alarmAt)
	if message := p.message(verb, a); message != nil {
		p.step(message)
	}
}

func (p *countPlayer) message(verb string, a machinetest.Arguments) any {
	switch verb {
	case "cancel":
		r := p.requests[a.Word(0)]
		if r == nil {
			p.Fail("there is no request %q", a.Word(0))
		}
		return wait.CancelRequest{Request: r, Cause: errors.New("context canceled")}
	case "ready":
		return p.Ready(a)
	case "message":
		return wait.ChannelMessage{}
	case "alarm":
		return wait.Alarm{}
	case "sweep":
		p.Sweep(p.state)
		return nil
	case "close":
		if a.Has("abort") {
			return wait.Close{Stage: wait.Aborting}
		}
		return wait.Close{Stage: wait.Closing}
	case "shut-down":
		return wait.Close{Stage: wait.Draining}
	case "break": // the step panics at the next id, or at the n-th from now
		p.breakAt = 1
		if a.Word(0) != "" {
			p.breakAt = p.Number(a.Word(0))
		}
		return nil
	case "done", "refused", "rejected", "unknown", "expired":
		return p.answer(verb, a)
	}
	return p.ask(verb, a)
}

// ask makes a request from a line such as "acquire a 2 try": the operation, a name for the request, a number (optional; 1 if it is left out), and the
// word try (optional).
func (p *countPlayer) ask(verb string, a machinetest.Arguments) any {
	op := countOps[verb]
	if op == nil {
		p.Fail("unknown message %q", verb)
	}
	r := &wait.Request{Do: wait.Count, Address: p.state.Address, Count: op, Number: 1, Try: a.Has("try")}
	for _, word := range a.Words[1:] {
		if word != "try" {
			r.Number = int64(p.Number(word))
		}
	}
	p.requests[a.Word(0)], p.names[r] = r, a.Word(0)
	return r
}

// answer makes the result of a call in flight. If several calls are in flight, the line names the request or the operation of the call. A line with
// "done" says how many permits are left. For an acquire it also says which waiters were served, and whether the call made a reservation.
func (p *countPlayer) answer(verb string, a machinetest.Arguments) any {
	call := p.flying(a)
	done := &countDone{call: call, class: scripts.Done, sent: p.sent[call]}
	switch verb {
	case "done":
		if left := a.Values["left"]; left != "" {
			done.counted.Number = int64(p.Number(left))
		}
		for _, bit := range a.Values["served"] {
			done.counted.Served = append(done.counted.Served, bit == '1')
		}
		if call.op.Way == scripts.Take && len(done.counted.Served) != len(call.terms.Numbers) {
			p.Fail("served is for %d", len(call.terms.Numbers))
		}
		done.counted.Reserved, done.counted.NotSet = a.Has("reserved"), a.Has("not-set")
	case "expired":
		done.class, done.err, done.expired = scripts.Refused, errors.New("LATE 1"), true
	default:
		done.class = map[string]scripts.Class{"refused": scripts.Refused, "rejected": scripts.Rejected, "unknown": scripts.Unknown}[verb]
		done.err = errors.New("no answer")
		if text := a.Values["error"]; text != "" {
			done.err = errors.New(text)
		}
	}
	p.calls = slices.DeleteFunc(p.calls, func(c *countCall) bool { return c == call })
	return done
}

func (p *countPlayer) flying(a machinetest.Arguments) *countCall {
	var found []*countCall
	for _, call := range p.calls {
		if !slices.ContainsFunc(a.Words, func(word string) bool {
			return word != "reserved" && word != "not-set" && word != call.terms.Request && word != wordOf(call.op)
		}) {
			if len(found) == 1 && found[0].terms.Request == call.terms.Request && found[0].op == call.op {
				found = nil // if a request was repeated after a panic, only its last call counts
			}
			found = append(found, call)
		}
	}
	if len(found) != 1 {
		p.Fail("%d calls are meant", len(found))
	}
	return found[0]
}

func (p *countPlayer) step(message any) {
	effects, panicked, err := p.checker.step(p.Now, message)
	p.Check(err)
	if panicked != nil {
		p.Writef("panic %q", panicked)
		if r, ok := message.(*wait.Request); ok {
			p.printAnswer(r)
		}
	}
	for i := range effects {
		p.print(&effects[i])
	}
	p.Handled(p.state, message)
}

func (p *countPlayer) print(e *wait.Effect) {
	switch e.Do {
	case wait.DoCall:
		p.calls = append(p.calls, e.Call.(*countCall))
		p.sent[e.Call.(*countCall)] = p.Now
		require.True(p.T, e.Call.(*countCall).Leave(p.Now, 0))
		p.printCall(e.Call.(*countCall))
	case wait.DoAnswer:
		p.printAnswer(e.Request)
	default:
		p.WriteEffect(e)
	}
}

func (p *countPlayer) printCall(c *countCall) {
	text := "call " + wordOf(c.op) + " " + c.terms.Request
	if c.terms.Numbers != nil {
		text += " " + strings.Trim(fmt.Sprint(c.terms.Numbers), "[]")
	}
	switch {
	case c.terms.Reserve < 0:
		text += fmt.Sprintf(" reserve=no rest=%v", c.terms.Rest)
	case c.terms.Reserve > 0:
		text += fmt.Sprintf(" reserve=%v rest=%v", c.terms.Reserve, c.terms.Rest)
	}
	if len(c.terms.Answered) > 0 {
		text += " forget=" + strings.Join(c.terms.Answered, ",")
	}
	p.Writef("%s deadline=%v", text, c.Deadline)
}

func (p *countPlayer) printAnswer(r *wait.Request) {
	text := strings.TrimPrefix(fmt.Sprint(r.Err), fmt.Sprintf("holdfast: %s %q: ", r.Count.Word, "orders"))
	switch {
	case r.Err != nil && errors.Is(r.Err, protocol.ErrNotAcquired):
		p.Writef("refuse %s %q", p.names[r], text)
	case r.Err != nil:
		p.Writef("fail %s %q", p.names[r], text)
	case r.Count.Way == scripts.Ask:
		p.Writef("answer %s %d", p.names[r], r.Number)
	default:
		p.Writef("answer %s", p.names[r])
	}
}

// While a look (the call that reads the count) has not been sent yet, further waiters cause no second look.
func TestStep_UnsentLookKeepsItsPlace(t *testing.T) {
	t.Parallel()
	p := newCountPlayer(t, "")
	p.SetPolicy([]string{"latch"})
	calls := 0
	for range 3 {
		r := &wait.Request{Do: wait.Count, Address: p.state.Address, Count: countOps["wait"], Number: 1}
		for _, e := range p.state.Step(0, r) {
			if e.Do == wait.DoCall {
				calls++
			}
		}
	}
	assert.Equal(t, 1, calls)
}
