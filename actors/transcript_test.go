package actors

import (
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

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/actors/wait"
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

	policy  wait.Policy
	kind    *scripts.Kind
	state   machine
	checker *stepChecker
	broken  bool // the next grant or lease makes the step panic

	requests map[string]*wait.Request // by their names
	names    map[*wait.Request]string
	acquires []string        // names of acquires, in order
	ended    map[string]bool // their holds that are known to be lost
	calls    []*lockCall     // on their way
	sent     map[*lockCall]time.Duration
	grants   map[string]*lease.Grant
	pids     map[string]*actor.PID
	channel  string // the last one that was watched
	out      strings.Builder
}

func newPlayer(t *testing.T, title string) *player {
	p := &player{
		t: t, title: title,
		requests: map[string]*wait.Request{}, names: map[*wait.Request]string{}, ended: map[string]bool{},
		sent: map[*lockCall]time.Duration{}, grants: map[string]*lease.Grant{}, pids: map[string]*actor.PID{},
	}
	p.setPolicy(nil)
	return p
}

// start makes the actor of these options.
func (p *player) start() {
	p.state = newMachine(&p.policy, &p.policy, &lease.Address{Kind: p.kind, Name: "orders", Raw: "orders"})
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
	policy := wait.Policy{HandoffMax: 10_000, HandoffFor: 10 * time.Millisecond, MaxWaiters: 100_000}
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
	p.policy = policy.WithTimes()
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

func (p *player) step(message any) {
	effects, panicked, err := p.checker.step(p.now, message)
	p.check(err)
	if panicked != nil {
		p.writef("panic %q", panicked)
		if r, ok := message.(*wait.Request); ok {
			p.printAnswer(r)
		}
	}
	for i := range effects {
		p.print(&effects[i])
	}
	for _, name := range p.acquires { // holds end without an effect
		if h := p.request(name).Hold; lost(h) && !p.ended[name] {
			p.ended[name] = true
			p.writef("end %s %q", name, h.Err())
		}
	}
}
