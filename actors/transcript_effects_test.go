package actors

// What comes out of a transcript: effects as lines.

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/clock"
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

func (p *player) print(e *effect) {
	switch e.do {
	case doCall:
		p.calls = append(p.calls, e.call.(*lockCall))
		p.sent[e.call.(*lockCall)] = p.now
		require.True(p.t, e.call.(*lockCall).Leave(p.now, 0))
		p.printCall(e.call.(*lockCall))
	case doAnswer:
		p.printAnswer(e.request)
	case doForget:
		p.writef("forget %s", p.names[e.request])
	case doTellLost:
		p.writef("tell %s lost serial=%d %q", e.hold.Requester.GetId(), e.hold.Serial, e.err)
	case doKeep:
		p.grants[e.grant.ID] = e.grant
		p.writef("keep %s until=%v", e.grant.ID, e.grant.Until())
	case doDrop:
		p.writef("drop %s", e.grant.ID)
	case doGuard:
		p.writef("guard %s", e.pid.GetId())
	case doUnguard:
		p.writef("unguard %s", e.pid.GetId())
	case doWatch:
		p.channel = e.channel
		fallthrough
	default:
		p.writef("%s", lineOf(e.do, e.at, e.event))
	}
}

// lineOf is the line of an effect that locks and what is counted have in common.
func lineOf(do effectKind, at time.Duration, event protocol.Event) string {
	switch do {
	case doWatch:
		return "watch"
	case doUnwatch:
		return "unwatch"
	case doAlarm:
		if at == clock.Never {
			return "alarm off"
		}
		return fmt.Sprintf("alarm %v", at)
	case doEmit:
		return fmt.Sprintf("event %v", event)
	case doStop:
		return "stop"
	case doStay:
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

func (p *player) printAnswer(r *Request) {
	name := p.names[r]
	switch {
	case r.do == opAcquire && r.err != nil:
		p.writef("refuse %s %q", name, r.err)
	case r.do == opAcquire:
		p.writef("grant %s %s serial=%d until=%v", name, r.hold.Grant.ID, r.hold.Serial, r.hold.Until())
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
