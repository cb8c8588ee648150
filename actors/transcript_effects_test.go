package actors

// What comes out of a transcript: effects as lines.

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/protocol"
)

func (k callKind) word() string {
	return [...]string{"acquire", "pass", "release", "ghost", "extend", "inspect", "force-release", "look"}[k]
}

func (p *player) writef(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	text = strings.NewReplacer(`holdfast: acquire \"orders\": `, "", `holdfast: `, "", `\"`, "'").Replace(text)
	fmt.Fprintln(&p.out, text)
}

func (p *player) print(e *wait.Effect) {
	switch e.Do {
	case wait.DoCall:
		p.calls = append(p.calls, e.Call.(*lockCall))
		p.sent[e.Call.(*lockCall)] = p.now
		require.True(p.t, e.Call.(*lockCall).Leave(p.now, 0))
		p.printCall(e.Call.(*lockCall))
	case wait.DoAnswer:
		p.printAnswer(e.Request)
	case wait.DoForget:
		p.writef("forget %s", p.names[e.Request])
	case wait.DoTellLost:
		p.writef("tell %s lost serial=%d %q", e.Hold.Requester.GetId(), e.Hold.Serial, e.Err)
	case wait.DoKeep:
		p.grants[e.Grant.ID] = e.Grant
		p.writef("keep %s until=%v", e.Grant.ID, e.Grant.Until())
	case wait.DoDrop:
		p.writef("drop %s", e.Grant.ID)
	case wait.DoGuard:
		p.writef("guard %s", e.Actor.GetId())
	case wait.DoUnguard:
		p.writef("unguard %s", e.Actor.GetId())
	case wait.DoWatch:
		p.channel = e.Channel
		fallthrough
	default:
		p.writef("%s", lineOf(e.Do, e.At, e.Event))
	}
}

// lineOf is the line of an effect that locks and what is counted have in common.
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
	case wait.DoStop:
		return "stop"
	case wait.DoStay:
		return "stay"
	}
	return fmt.Sprintf("unknown effect %d", do)
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
	if c.idlers > 0 {
		text += fmt.Sprintf(" idlers=%d", c.idlers)
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
	if c.NotAfter != c.Deadline {
		text += fmt.Sprintf(" not-after=%v", c.NotAfter)
	}
	p.writef("%s deadline=%v", text, c.Deadline)
}

func (p *player) printAnswer(r *wait.Request) {
	name := p.names[r]
	switch {
	case r.Do == wait.Acquire && r.Err != nil:
		p.writef("refuse %s %q", name, r.Err)
	case r.Do == wait.Acquire:
		p.writef("grant %s %s serial=%d until=%v", name, r.Hold.Grant.ID, r.Hold.Serial, r.Hold.Until())
	case r.Err != nil:
		p.writef("answer %v %s %q", r.Do, name, r.Err)
	case r.Do == wait.Extend:
		p.writef("answer %v %s until=%v", r.Do, name, r.Until)
	case r.Do == wait.Inspect:
		p.writef("answer %v %s holders=%v local=%v waiting=%d", r.Do, name, r.State.Holders, r.State.Local, r.State.Waiting)
	case r.Do == wait.ForceRelease:
		p.writef("answer %v %s held=%v", r.Do, name, r.Held)
	default:
		p.writef("answer %v %s", r.Do, name)
	}
}
