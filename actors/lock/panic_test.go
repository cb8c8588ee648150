package lock

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The shell can panic, too, while it carries out the effects of a step. The shell has then answered the request that it was handling, but perhaps not
// sent the calls of the step. Whoever has got a lease in this step must learn that the lease has ended. The other waiters must stay in the queue, and
// whatever may be left in Redis must be released.
func TestStep_PanicOfTheShell(t *testing.T) {
	p := newPlayer(t, "the shell panics")
	for _, line := range []string{"@0ms acquire a", "@1ms granted", "@2ms acquire b", "@2ms acquire c", "@3ms release a"} {
		p.Play(line)
	}
	p.Out.Reset()
	delete(p.checker.open, p.request("release a"))
	effects := p.state.Distrust(p.Now, p.request("release a"))
	p.Check(p.checker.after(p.Now, effects, true))
	for i := range effects {
		p.print(&effects[i])
	}
	p.Play("@alarm")
	assert.Equal(t, `drop g1
lost serial=2
event lock "orders": lease g1 lost: an actor panicked
alarm 4ms
call orphan g1 deadline=2.004s
call acquire g2 lease=30s deadline=2.004s
end b "lease lost"
`, p.Out.String())
}
