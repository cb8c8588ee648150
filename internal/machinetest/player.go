package machinetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Player is the common part of the players of locks and of counters: the clock, the policy, reading and writing lines.
type Player struct {
	T     *testing.T
	Title string
	Now   time.Duration
	Line  string

	Policy  wait.Policy
	Kind    *scripts.Kind
	Broken  bool   // the next grant or lease makes the step panic
	Channel string // the last channel that was subscribed to
	ends    bool   // the runtime is shutting down or closing
	Out     strings.Builder
}

func (p *Player) Take() string {
	text := p.Out.String()
	p.Out.Reset()
	return text
}

// SetPolicy sets the policy and the kind. Each option is name=value, or only the word "counts". The names are "lease", "max", "for", "linger",
// "acks", "waiters", "jitter" (0.5 means half of the upper bound, each time), and "kind" (by default the plain lock).
func (p *Player) SetPolicy(options []string) {
	lease, jitter := 30*time.Second, 0.0
	p.ends = false
	p.Kind = scripts.Lock
	policy := wait.Policy{HandoffMax: 10_000, HandoffFor: 10 * time.Millisecond, MaxWaiters: 100_000}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "lease":
			lease = p.Duration(value)
		case "kind":
			p.Kind = p.KindOf(value)
		case "max":
			policy.HandoffMax = p.Number(value)
		case "for":
			policy.HandoffFor = p.Duration(value)
		case "linger":
			policy.Linger = p.Duration(value)
		case "counts":
			policy.Standalone = true
		case "acks":
			policy.AckReplicas, policy.AckTimeout = p.Number(value), time.Second
		case "waiters":
			policy.MaxWaiters = p.Number(value)
		case "jitter":
			var err error
			jitter, err = strconv.ParseFloat(value, 64)
			p.Check(err)
		default:
			p.Fail("unknown policy %q", option)
		}
	}
	policy.Lease = lease
	grants, serials := 0, uint64(0)
	policy.NewID = func() string {
		grants++
		return "g" + strconv.Itoa(grants)
	}
	policy.Serial = func() uint64 {
		if p.Broken {
			p.Broken = false
			panic("no serial")
		}
		serials++
		return serials
	}
	policy.Jitter = func(d time.Duration) time.Duration { return time.Duration(jitter * float64(d)) }
	policy.ServerTime = func(now time.Duration) time.Duration { return 151900*time.Millisecond + now } // a period begins at 1.1 s
	p.Policy = policy.WithTimes()
}

// KindOf finds a kind by the first word of its name.
func (p *Player) KindOf(word string) *scripts.Kind {
	if word == "permit" {
		return scripts.Permit
	}
	kind, ok := scripts.KindOf(protocol.Kind(word + " lock"))
	if !ok {
		p.Fail("unknown kind %q", word)
	}
	return kind
}

func (p *Player) Fail(format string, args ...any) {
	p.T.Helper()
	p.T.Fatalf("%s\n%s\n%s\nso far: %s", p.Title, p.Line, fmt.Sprintf(format, args...), p.Out.String())
}

func (p *Player) Check(err error) {
	p.T.Helper()
	if err != nil {
		p.Fail("%v", err)
	}
}

func (p *Player) Number(s string) int {
	n, err := strconv.Atoi(s)
	p.Check(err)
	return n
}

func (p *Player) Duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	p.Check(err)
	return d
}

// Arguments are the words and name=value pairs after a verb.
type Arguments struct {
	Words  []string
	Values map[string]string
}

func (a Arguments) Word(i int) string {
	if i < len(a.Words) {
		return a.Words[i]
	}
	return ""
}

func (a Arguments) Has(word string) bool { return slices.Contains(a.Words, word) }

// Read reads a line "@instant verb arguments". The line "@alarm" stands for an alarm at the instant at which it is due.
func (p *Player) Read(line string, alarmAt time.Duration) (verb string, a Arguments) {
	p.Line = line
	fields := words(line)
	if fields[0] == "@alarm" {
		p.Now = alarmAt
	} else {
		now := p.Duration(fields[0][1:])
		if now < p.Now || now > alarmAt && fields[1] != "alarm" {
			p.Fail("it is %v, and the alarm is set to %v", p.Now, alarmAt)
		}
		p.Now = now
	}
	verb, a = "alarm", Arguments{Values: map[string]string{}}
	if len(fields) > 1 {
		verb = fields[1]
		for _, field := range fields[2:] {
			if name, value, found := strings.Cut(field, "="); found {
				a.Values[name] = value
			} else {
				a.Words = append(a.Words, field)
			}
		}
	}
	return verb, a
}

// Sweep writes "stop" if the registry, in a sweep, would take the name from the actor of this machine.
func (p *Player) Sweep(m wait.Machine) {
	if m.Idle() {
		p.Writef("stop")
	}
}

// Handled writes "stop" if the registry would stop the actor after this message, because the runtime ends.
func (p *Player) Handled(m wait.Machine, message any) {
	if _, closes := message.(wait.Close); closes {
		p.ends = true
	}
	if p.ends {
		p.Sweep(m)
	}
}

// Ready makes the message that confirms the subscription to the channel, for the first time or after a reconnection.
func (p *Player) Ready(a Arguments) wait.ChannelReady {
	ready := wait.ChannelReady{Channel: p.Channel}
	if n := a.Values["among"]; n != "" {
		ready.Among = p.Number(n)
	}
	return ready
}

func (p *Player) Writef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text = strings.NewReplacer(`holdfast: acquire \"orders\": `, "", `holdfast: `, "", `\"`, "'").Replace(text)
	fmt.Fprintln(&p.Out, text)
}

// WriteEffect writes a line for an effect that locks and counters have in common.
func (p *Player) WriteEffect(e *wait.Effect) {
	line := lineOf(e.Do, e.At, e.Event)
	if e.Do == wait.DoWatch {
		p.Channel = e.Channel
		if _, row, is := strings.Cut(e.Channel, ":crowd:"); is {
			line += " row " + row
		}
	}
	p.Writef("%s", line)
}

// lineOf formats an effect.
func lineOf(do wait.EffectKind, at time.Duration, event protocol.Event) string {
	switch do {
	case wait.DoWatch:
		return "watch"
	case wait.DoUnwatch:
		return "unwatch"
	case wait.DoAlarm:
		if at == clock.Never {
			return "alarm off"
		}
		return fmt.Sprintf("alarm %v", at)
	case wait.DoEmit:
		return fmt.Sprintf("event %v", event)
	case wait.DoLeave:
		return "leave"
	case wait.DoLinger:
		return "lingers"
	case wait.DoUnlinger:
		return "lingers no more"
	}
	return fmt.Sprintf("unknown effect %d", do)
}
