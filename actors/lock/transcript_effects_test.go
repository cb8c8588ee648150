package lock

// This file writes effects as lines of a transcript.

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/wait"
	"github.com/holdfast-go/holdfast/scripts"
)

func (k callKind) word() string {
	return [...]string{"acquire", "pass", "release", "orphan", "extend", "look"}[k]
}

func (p *player) print(e *wait.Effect) {
	switch e.Do {
	case wait.DoCall:
		p.calls = append(p.calls, e.Call.(*lockCall))
		p.sent[e.Call.(*lockCall)] = p.Now
		require.True(p.T, e.Call.(*lockCall).Leave(p.Now, 0))
		p.printCall(e.Call.(*lockCall))
	case wait.DoAnswer:
		p.printAnswer(e.Request)
	case wait.DoLost:
		p.Writef("lost serial=%d", e.Hold.Serial)
	case wait.DoReport:
		p.Writef("report %s: %v", p.names[e.Request], *e.Waiting)
	case wait.DoKeep:
		p.grants[e.Grant.ID] = e.Grant
		p.Writef("keep %s until=%v", e.Grant.ID, e.Grant.Until())
	case wait.DoDrop:
		p.Writef("drop %s", e.Grant.ID)
	default:
		p.WriteEffect(e)
	}
}

func (p *player) printCall(c *lockCall) {
	text := "call " + c.do.word()
	if c.terms.From != "" {
		text += " " + c.terms.From + " to"
	}
	if c.terms.Grant != "" {
		text += " " + c.terms.Grant
	}
	if c.terms.TurnEnds {
		text += " ends"
	}
	if c.terms.Idlers > 0 {
		text += fmt.Sprintf(" idlers=%d", c.terms.Idlers)
	}
	if c.terms.Lease != 0 {
		text += fmt.Sprintf(" lease=%v", c.terms.Lease)
	}
	if c.terms.Keep != 0 {
		text += fmt.Sprintf(" keep=%v", c.terms.Keep)
	}
	switch {
	case strings.HasPrefix(c.terms.Report, scripts.HasTicket):
		text += " has-ticket"
	case strings.HasPrefix(c.terms.Report, scripts.Yields):
		text += " yields"
	case c.terms.Report != "":
		text += " subscribers"
	}
	if c.terms.WriteGrant != "" {
		text += " write-grant=" + c.terms.WriteGrant
	}
	if c.NotAfter != c.Deadline {
		text += fmt.Sprintf(" not-after=%v", c.NotAfter)
	}
	p.Writef("%s deadline=%v", text, c.Deadline)
}

func (p *player) printAnswer(r *wait.Request) {
	name := p.names[r]
	switch {
	case r.Do == wait.Acquire && r.Err != nil:
		p.Writef("refuse %s %q", name, r.Err)
	case r.Do == wait.Acquire:
		p.Writef("grant %s %s serial=%d until=%v", name, r.Hold.Grant.ID, r.Hold.Serial, r.Hold.Until())
	case r.Err != nil:
		p.Writef("answer %v %s %q", r.Do, name, r.Err)
	case r.Do == wait.Extend:
		p.Writef("answer %v %s until=%v", r.Do, name, r.Until)
	default:
		p.Writef("answer %v %s", r.Do, name)
	}
}
