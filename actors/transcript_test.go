package actors

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

var rewrite = flag.Bool("rewrite", false, "write what the step did into the transcripts")

// TestTranscripts plays testdata/*.txt: what a lock actor is told and when, and what it decides. A file looks like this:
//
//	=== name of the case; everything starts anew
//	policy max=2
//
//	@0ms acquire a owner=x
//	----
//	call acquire g1 lease=30s deadline=2s
//
// Above the dashes are messages, each a step; below is what they made happen. Lines with # are for the reader. play and
// answer, below, know all the messages. After every step the stepChecker looks for what must never be.
func TestTranscripts(t *testing.T) {
	playAll(t, "testdata/*.txt", func(t *testing.T, title string) transcript { return newPlayer(t, title) })
}

// transcript is one case that is played.
type transcript interface {
	setPolicy(options []string)
	play(line string)
	take() string // what has happened since it was called before
}

// playAll plays the files that match.
func playAll(t *testing.T, pattern string, start func(t *testing.T, title string) transcript) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			got := replay(t, string(text), start)
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			compare(t, string(text), got)
		})
	}
}

// compare shows the first difference; the whole files would hide it.
func compare(t *testing.T, want, got string) {
	t.Helper()
	wanted, gotten := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(wanted), len(gotten)) {
		if i >= len(wanted) || i >= len(gotten) || wanted[i] != gotten[i] {
			from := max(0, i-8)
			part := func(lines []string) string {
				return strings.Join(lines[min(from, len(lines)):min(i+8, len(lines))], "\n")
			}
			t.Fatalf("line %d\n--- wanted\n%s\n--- got\n%s\n\ngo test ./actors -run Transcript -rewrite writes it anew",
				i+1, part(wanted), part(gotten))
		}
	}
}

// replay is the transcript with its effects as they are now.
func replay(t *testing.T, text string, start func(t *testing.T, title string) transcript) string {
	var out strings.Builder
	var p transcript
	var messages []string
	skipping := false // the old effects, up to the next empty line
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			skipping = false
		case skipping:
			continue
		case strings.HasPrefix(line, "==="):
			p = start(t, line)
		case strings.HasPrefix(line, "policy "):
			p.setPolicy(words(line)[1:])
		case strings.HasPrefix(line, "@"):
			messages = append(messages, line)
		case line == "----":
			skipping = true
			fmt.Fprintln(&out, line)
			for _, message := range messages {
				p.play(message)
				out.WriteString(p.take())
			}
			messages = nil
			continue
		case !strings.HasPrefix(line, "#"):
			t.Fatalf("%q is neither a message nor a comment", line)
		}
		fmt.Fprintln(&out, line)
	}
	require.Empty(t, messages, "messages without dashes below")
	return out.String()
}

// words splits a line at spaces outside of quotes.
func words(line string) []string {
	quoted := false
	fields := strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for i, field := range fields {
		fields[i] = strings.ReplaceAll(field, `"`, "")
	}
	return fields
}

// player plays one case.
type player struct {
	t     *testing.T
	title string
	now   time.Duration
	line  string

	policy  Policy
	kind    *scripts.Kind
	state   stepper
	checker *stepChecker
	broken  bool // the next grant or lease makes the step panic

	requests map[string]*Request // by their names
	names    map[*Request]string
	acquires []string        // names of acquires, in order
	ended    map[string]bool // their holds that are known to be lost
	calls    []*lockCall     // on their way
	sent     map[*lockCall]time.Duration
	grants   map[string]*Grant
	pids     map[string]*actor.PID
	channel  string // the last one that was watched
	out      strings.Builder
}

func newPlayer(t *testing.T, title string) *player {
	p := &player{
		t: t, title: title,
		requests: map[string]*Request{}, names: map[*Request]string{}, ended: map[string]bool{},
		sent: map[*lockCall]time.Duration{}, grants: map[string]*Grant{}, pids: map[string]*actor.PID{},
	}
	p.setPolicy(nil)
	return p
}

// start makes the actor of these options.
func (p *player) start() {
	p.state = newStepper(&p.policy, &Address{Kind: p.kind, Name: "orders", Raw: "orders"})
	p.checker = newStepChecker(p.state)
}

func (p *player) take() string {
	text := p.out.String()
	p.out.Reset()
	return text
}

// setPolicy takes lease, max, for, waiters, jitter as a fraction of what is allowed, and a kind instead of the plain lock.
func (p *player) setPolicy(options []string) {
	lease, jitter := 30*time.Second, 0.0
	p.kind = scripts.Lock
	policy := Policy{HandoffMax: 10_000, HandoffFor: 10 * time.Millisecond, MaxWaiters: 100_000}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "lease":
			lease = p.duration(value)
		case "kind":
			p.kind = p.kindOf(value)
		case "max":
			policy.HandoffMax = p.number(value)
		case "for":
			policy.HandoffFor = p.duration(value)
		case "counts":
			policy.Counts = true
		case "acks":
			policy.AckReplicas, policy.AckTimeout = p.number(value), time.Second
		case "waiters":
			policy.MaxWaiters = p.number(value)
		case "jitter":
			var err error
			jitter, err = strconv.ParseFloat(value, 64)
			p.check(err)
		default:
			p.fail("unknown policy %q", option)
		}
	}
	policy.Lease = lease
	grants, serials := 0, uint64(0)
	policy.NewID = func() string {
		grants++
		return "g" + strconv.Itoa(grants)
	}
	policy.Serial = func() uint64 {
		if p.broken {
			p.broken = false
			panic("no serial")
		}
		serials++
		return serials
	}
	policy.Jitter = func(d time.Duration) time.Duration { return time.Duration(jitter * float64(d)) }
	policy.ServerTime = func(now time.Duration) time.Duration { return 151900*time.Millisecond + now } // a period begins at 1.1 s
	p.policy = policy.withTimes()
	p.start()
}

// kindOf finds a kind by the first word of its name.
func (p *player) kindOf(word string) *scripts.Kind {
	kind, ok := scripts.KindOf(protocol.Kind(word + " lock"))
	if !ok {
		p.fail("unknown kind %q", word)
	}
	return kind
}

func (p *player) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\n%s\n%s\nso far: %s", p.title, p.line, fmt.Sprintf(format, args...), p.out.String())
}

func (p *player) check(err error) {
	p.t.Helper()
	if err != nil {
		p.fail("%v", err)
	}
}

func (p *player) number(s string) int {
	n, err := strconv.Atoi(s)
	p.check(err)
	return n
}

func (p *player) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	p.check(err)
	return d
}

// arguments are what follows a verb: words, and name=value.
type arguments struct {
	words  []string
	values map[string]string
}

func (a arguments) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (a arguments) has(word string) bool { return slices.Contains(a.words, word) }

// play reads a line "@instant verb arguments" and takes the step. "alarm" may leave out its instant.
func (p *player) play(line string) {
	p.line = line
	fields := words(line)
	if fields[0] == "@alarm" {
		p.now = p.checker.alarmAt
	} else {
		now := p.duration(fields[0][1:])
		if now < p.now || now > p.checker.alarmAt && fields[1] != "alarm" {
			p.fail("it is %v, and the alarm is set to %v", p.now, p.checker.alarmAt)
		}
		p.now = now
	}
	verb, a := "alarm", arguments{values: map[string]string{}}
	if len(fields) > 1 {
		verb = fields[1]
		for _, field := range fields[2:] {
			if name, value, found := strings.Cut(field, "="); found {
				a.values[name] = value
			} else {
				a.words = append(a.words, field)
			}
		}
	}
	if message := p.message(verb, a); message != nil {
		p.step(message)
	}
}

// message is what a line says; nil when it is done already.
func (p *player) message(verb string, a arguments) any {
	switch verb {
	case "acquire":
		return p.acquire(a)
	case "release", "extend", "inspect", "force-release":
		return p.ask(verb, a)
	case "claim": // the holder calls Release; the message comes with a later "release"
		require.True(p.t, p.request(a.word(0)).hold.claim())
	case "cancel":
		return p.cancel(a)
	case "ready":
		ready := channelReady{channel: p.channel}
		if n := a.values["among"]; n != "" {
			ready.among = p.number(n)
		}
		return ready
	case "message":
		releases := 1
		if n := a.values["releases"]; n != "" {
			releases = p.number(n)
		}
		return channelMessage{p.channel, releases}
	case "alarm":
		return alarm{}
	case "due": // the watchdog says that the deadline is near; suspect: because a renewal failed
		g := p.grants[a.word(0)]
		g.suspect.Store(a.has("suspect"))
		return grantDue{g}
	case "renewed": // by the watchdog, with a renewal sent at this instant; nobody is told
		g := p.grants[a.word(0)]
		require.True(p.t, g.extend(p.now, deadlineOf(p.now, g.lease)))
		g.suspect.Store(false)
	case "gone":
		return grantGone{grant: p.grants[a.word(0)]}
	case "terminated":
		return requesterGone{pid: p.pid(a.word(0)), replaced: a.has("replaced")}
	case "retire":
		return tryRetire{}
	case "close":
		return closeLock{abort: a.has("abort")}
	case "break": // the next lease that is given makes the step panic
		p.broken = true
	default:
		return p.answer(verb, a)
	}
	return nil
}

func (p *player) acquire(a arguments) any {
	r := p.newRequest(opAcquire, a.word(0), a)
	r.hold = &Hold{}
	p.acquires = append(p.acquires, a.word(0))
	r.try, r.bounded = a.has("try"), a.has("wait")
	if lease := a.values["lease"]; lease != "" {
		r.lease = p.duration(lease)
	}
	if owner := a.values["owner"]; owner != "" {
		r.owner = protocol.NewOwner(owner, 1)
	}
	return r
}

func (p *player) newRequest(do operation, name string, a arguments) *Request {
	r := &Request{do: do, address: &Address{Kind: p.kind, Name: "orders", Raw: "orders"}}
	for _, word := range []string{"read", "write"} { // which half
		if p.kind.Family == scripts.ReadWrite && a.has(word) {
			r.address.Kind = p.kindOf(word)
		}
	}
	if from := a.values["from"]; from != "" {
		r.requester = p.pid(from)
		r.id = uint64(p.number(a.values["id"]))
	}
	p.names[r] = name
	if do == opAcquire {
		p.requests[name] = r
	} else {
		p.requests[do.String()+" "+name] = r
	}
	return r
}

func (p *player) pid(name string) *actor.PID {
	if p.pids[name] == nil {
		p.pids[name] = actor.NewPID("here", name)
	}
	return p.pids[name]
}

// request finds "a", or "release a" for a cancel.
func (p *player) request(words ...string) *Request {
	r := p.requests[strings.Join(words, " ")]
	if r == nil {
		p.fail("there is no request %q", words)
	}
	return r
}

func (p *player) ask(verb string, a arguments) any {
	do := operation(slices.IndexFunc([]operation{0, 1, 2, 3, 4}, func(o operation) bool { return o.String() == verb }))
	r := p.newRequest(do, a.word(0), a)
	switch {
	case do == opInspect || do == opForceRelease:
	case r.requester != nil:
		r.serial = uint64(p.number(a.values["serial"]))
	default:
		r.hold = p.request(a.word(0)).hold
	}
	if do == opRelease && r.hold != nil && !a.has("claimed") {
		require.True(p.t, r.hold.claim(), "%s: the hold has ended", p.line)
	}
	if deadline := a.values["deadline"]; deadline != "" {
		r.deadline = p.duration(deadline)
	}
	if do == opExtend {
		r.lease = p.duration(a.word(1))
	}
	return r
}

// cancel takes "a" or "release a", and a cause: without one the time to wait is over.
func (p *player) cancel(a arguments) any {
	m := cancelRequest{request: p.request(a.words...), cause: protocol.ErrNotAcquired}
	if cause := a.values["cause"]; cause != "" {
		m.cause = errors.New(cause)
	}
	return m
}

// answer is the answer of the call on its way; if there are several, the kind or the grant says which.
func (p *player) answer(verb string, a arguments) any {
	call := p.flying(a)
	done := &callDone{call: call, class: scripts.Done, sent: p.sent[call]}
	if sent := a.values["sent"]; sent != "" {
		done.sent = p.duration(sent)
	}
	switch verb {
	case "granted":
		done.acquired.Granted = true
		if a.values["unacked"] != "" {
			done.unacked = protocol.ErrNotReplicated
		}
	case "busy":
		done.acquired = scripts.Acquired{
			TTL: -time.Millisecond, Holder: a.values["holder"], Queued: a.values["queued"] != "", Next: a.values["next"],
		}
		if ttl := a.values["ttl"]; ttl != "" {
			done.acquired.TTL = p.duration(ttl)
		}
	case "done": // a pass, release, extend or force-release did it, an inspect has been answered
		done.held = true
		if others := a.values["receivers"]; others != "" {
			done.receivers = p.number(others)
		}
		done.state = protocol.State{Held: true, Holders: []protocol.Holder{{ID: "peer", Holds: 1}}}
	case "freed": // by a pass, for others
		done.receivers = p.number(a.values["receivers"])
	case "not-held": // the grant does not hold the lock
	case "refused", "rejected", "unknown":
		done.class = map[string]scripts.Class{"refused": scripts.Refused, "rejected": scripts.Rejected, "unknown": scripts.Unknown}[verb]
		done.err = errors.New("no answer")
		if text := a.values["error"]; text != "" {
			done.err = errors.New(text)
		}
	default:
		p.fail("unknown message %q", verb)
	}
	p.calls = slices.DeleteFunc(p.calls, func(c *lockCall) bool { return c == call })
	return done
}

func (p *player) flying(a arguments) *lockCall {
	var found []*lockCall
	for _, call := range p.calls {
		if !slices.ContainsFunc(a.words, func(word string) bool { return word != call.do.word() && word != call.grant }) {
			found = append(found, call)
		}
	}
	if len(found) != 1 {
		p.fail("%d calls are meant", len(found))
	}
	return found[0]
}

func (k callKind) word() string {
	return [...]string{"acquire", "pass", "release", "ghost", "extend", "inspect", "force-release", "look"}[k]
}

func (p *player) step(message any) {
	effects, panicked, err := p.checker.step(p.now, message)
	p.check(err)
	if panicked != nil {
		p.writef("panic %q", panicked)
		if r, ok := message.(*Request); ok {
			p.printAnswer(r)
		}
	}
	for i := range effects {
		p.print(&effects[i])
	}
	for _, name := range p.acquires { // holds end without an effect
		if h := p.request(name).hold; h.state.Load() == holdLost && !p.ended[name] {
			p.ended[name] = true
			p.writef("end %s %q", name, h.Err())
		}
	}
}

func (p *player) writef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text = strings.NewReplacer(`holdfast: acquire \"orders\": `, "", `holdfast: `, "", `\"`, "'").Replace(text)
	fmt.Fprintln(&p.out, text)
}

func (p *player) print(e *effect) {
	switch e.do {
	case doCall:
		p.calls = append(p.calls, e.call)
		p.sent[e.call] = p.now
		p.printCall(e.call)
	case doAnswer:
		p.printAnswer(e.request)
	case doForget:
		p.writef("forget %s", p.names[e.request])
	case doTellLost:
		p.writef("tell %s lost serial=%d %q", e.hold.requester.Id, e.hold.serial, e.err)
	case doKeep:
		p.grants[e.grant.id] = e.grant
		p.writef("keep %s until=%v", e.grant.id, e.grant.until())
	case doDrop:
		p.writef("drop %s", e.grant.id)
	case doWatch:
		p.channel = e.channel
		p.writef("watch")
	case doUnwatch:
		p.writef("unwatch")
	case doAlarm:
		if e.at == never {
			p.writef("alarm off")
		} else {
			p.writef("alarm %v", e.at)
		}
	case doGuard:
		p.writef("guard %s", e.pid.Id)
	case doUnguard:
		p.writef("unguard %s", e.pid.Id)
	case doEmit:
		p.writef("event %v", e.event)
	case doStop:
		p.writef("stop")
	case doStay:
		p.writef("stay")
	}
}

func (p *player) printCall(c *lockCall) {
	text := "call " + c.do.word()
	if c.from != "" {
		text += " " + c.from + " to"
	}
	if c.grant != "" {
		text += " " + c.grant
	}
	if c.ends {
		text += " ends"
	}
	if c.listens {
		text += " listens"
	}
	if c.lease != 0 {
		text += fmt.Sprintf(" lease=%v", c.lease)
	}
	if c.holder {
		text += " holder"
	}
	if c.alone != "" {
		text += " alone=" + c.alone
	}
	if c.notAfter != 0 {
		text += fmt.Sprintf(" not-after=%v", c.notAfter)
	}
	p.writef("%s deadline=%v", text, c.deadline)
}

func (p *player) printAnswer(r *Request) {
	name := p.names[r]
	switch {
	case r.do == opAcquire && r.err != nil:
		p.writef("refuse %s %q", name, r.err)
	case r.do == opAcquire:
		p.writef("grant %s %s serial=%d until=%v", name, r.hold.grant.id, r.hold.serial, r.hold.Until())
	case r.err != nil:
		p.writef("answer %v %s %q", r.do, name, r.err)
	case r.do == opExtend:
		p.writef("answer %v %s until=%v", r.do, name, r.until)
	case r.do == opInspect:
		p.writef("answer %v %s holders=%v local=%v waiting=%d", r.do, name, r.state.Holders, r.state.Local, r.state.Waiting)
	case r.do == opForceRelease:
		p.writef("answer %v %s held=%v", r.do, name, r.held)
	default:
		p.writef("answer %v %s", r.do, name)
	}
}
