package timerwheel_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// model runs the same script with a wheel and with a list of the armed timers, which is
// sorted by deadline. The wheel must agree with the list.
type model struct {
	*bench
	t      *testing.T
	width  time.Duration
	turn   time.Duration
	timers []timer
	armed  []armed // sorted by deadline
	script []byte  // the rest of the script
}

type armed struct {
	timer *timer
	at    time.Duration // the deadline
	since time.Duration // when it was armed
}

// run runs a script, which may be any bytes, with a wheel and a list: see model.
func run(t *testing.T, script []byte) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{t: t, timers: make([]timer, 40), script: script}
		m.width = []time.Duration{ms, 1700 * time.Microsecond, 10 * ms, 50 * ms}[m.next()%4]
		slots := 1 << (1 + m.next()%6)
		m.turn = m.width * time.Duration(slots)
		m.bench = newBench(t, m.width, slots)
		for len(m.script) > 0 {
			m.step()
		}
		m.end()
	})
}

func (m *model) next() int {
	if len(m.script) == 0 {
		return 0
	}
	b := m.script[0]
	m.script = m.script[1:]
	return int(b)
}

func (m *model) step() {
	switch op := m.next() % 8; op {
	case 0, 1, 2:
		m.add(1)
	case 3:
		m.add(1 + m.next()%len(m.timers))
	case 4:
		m.cancel()
	case 5, 6:
		m.elapse(time.Duration(m.next()) * m.width / 50) // up to 5 slots
	case 7:
		m.elapse(time.Duration(m.next()) * m.turn / 100) // up to 2.5 turns
	}
}

// instant returns an instant in the near or far future, and sometimes one in the past.
func (m *model) instant() time.Duration {
	steps := time.Duration(m.next())
	if m.next()%4 == 0 {
		return m.Now() + steps*m.turn/50
	}
	return m.Now() + (steps-30)*m.width/7
}

func (m *model) add(n int) {
	at := m.instant()
	first := m.next() % len(m.timers)
	var ts []*timer
	for i := range n {
		ts = append(ts, &m.timers[(first+i)%len(m.timers)])
	}
	if n == 1 {
		require.True(m.t, m.Add(ts[0], at))
	} else {
		require.True(m.t, m.AddAll(ts, at))
	}
	for _, x := range ts {
		m.forget(x)
		m.armed = append(m.armed, armed{x, at, m.Now()})
	}
	slices.SortStableFunc(m.armed, func(a, b armed) int { return cmp.Compare(a.at, b.at) })
	m.settle()
}

func (m *model) cancel() {
	x := &m.timers[m.next()%len(m.timers)]
	_, was := m.forget(x)
	require.Equal(m.t, was, m.Cancel(x))
	m.settle()
}

func (m *model) elapse(d time.Duration) {
	<-time.After(d)
	m.settle()
}

// forget takes a timer off the list.
func (m *model) forget(x *timer) (armed, bool) {
	i := slices.IndexFunc(m.armed, func(a armed) bool { return a.timer == x })
	if i < 0 {
		return armed{}, false
	}
	a := m.armed[i]
	m.armed = slices.Delete(m.armed, i, i+1)
	return a, true
}

// settle compares the wheel with the list. Every timer that was handed over must be in the list: a timer that was cancelled, or handed over before,
// is not. Every timer must also be handed over on time, and no timer that is still armed may be overdue.
func (m *model) settle() {
	synctest.Wait()
	last := time.Duration(0)
	for _, h := range m.take() {
		a, was := m.forget(h.timer)
		require.True(m.t, was, "handed over, but not armed")
		if slot := max(a.at, a.since) / m.width; m.width%ms == 0 { // with other widths, the driver rounds, and may wake for two slots at once
			require.GreaterOrEqual(m.t, slot, last, "a later slot was delivered first")
			last = slot
		}
		require.Less(m.t, a.at-h.when, m.width, "too early")
		require.Less(m.t, h.when-max(a.at, a.since), 2*ms, "too late")
	}
	if len(m.armed) > 0 {
		a := m.armed[0]
		require.Less(m.t, m.Now()-max(a.at, a.since), 2*ms, "lost")
	}
	require.Equal(m.t, len(m.armed), m.Len())
	require.NoError(m.t, m.Check())
}

// end lets time pass until half of the armed timers are due. Then it stops the wheel, in which the other timers are still armed.
func (m *model) end() {
	if n := len(m.armed); n > 0 {
		m.elapse(max(0, m.armed[n/2].at-m.Now()))
	}
	rest := m.Stop()
	require.Len(m.t, rest, len(m.armed))
	for _, x := range rest {
		_, was := m.forget(x)
		require.True(m.t, was)
	}
}

func TestWheel_AgreesWithASortedList(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1987))
		script := make([]byte, 1000)
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		run(t, script)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Run this fuzz test with -fuzzminimizetime=10x. The driver's goroutines cover different lines each time, so without that flag each minimization
// takes a whole minute, in which no other input is tried.
func FuzzWheel_AgreesWithASortedList(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 3, 0, 200, 0, 1, 7, 90, 4, 1})       // far, a turn passes, cancel
	f.Add([]byte{0, 0, 3, 39, 10, 1, 0, 6, 5, 5, 7, 50}) // all at once, in two slots
	f.Fuzz(func(t *testing.T, script []byte) { run(t, script[:min(len(script), 2000)]) })
}
