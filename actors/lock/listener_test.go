package lock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestStep_ListenersCostLittle lets the processes of TestStep_SharesAreEven contend while mere listeners also receive the release messages. Mere
// listeners never try: they are monitors, or waiters in another database of the server. When the processes have noticed that the listeners never try,
// the lock must be in use for almost as long as without listeners, and shares must be even. A single process notices it within a second; several
// processes need many turns.
func TestStep_ListenersCostLittle(t *testing.T) {
	alone, many := []int{1, 3, 20}, []int{1, 3}
	for _, c := range []struct {
		processes, users int
		section, lag     time.Duration // lag: by how much messages arrive later than replies
		listeners        []int
		settle, end      time.Duration
		used             float64 // the minimum number of sections, as a fraction of the number without listeners
	}{
		{1, 1, 0, 0, alone, time.Second, 3 * time.Second, 0.9},
		{1, 1, 0, 2 * time.Millisecond, alone, time.Second, 3 * time.Second, 0.9},
		{1, 16, 0, 2 * time.Millisecond, alone, time.Second, 3 * time.Second, 0.9},
		{2, 8, time.Millisecond, 2 * time.Millisecond, many, time.Second, 5 * time.Second, 0.9},
		{1, 1, 20 * time.Millisecond, 0, alone, time.Second, 5 * time.Second, 0.9},
		{1, 16, 100 * time.Microsecond, 0, alone, time.Second, 2 * time.Second, 0.9},
		{1, 16, time.Millisecond, 0, alone, time.Second, 5 * time.Second, 0.9},
		{2, 1, time.Millisecond, 0, alone, time.Second, 5 * time.Second, 0.9},
		{2, 8, time.Millisecond, 0, alone, time.Second, 5 * time.Second, 0.9},
		{8, 1, 20 * time.Millisecond, 0, many, 15 * time.Second, time.Minute, 0.8},
		{8, 1, 10 * time.Millisecond, 0, many, 5 * time.Second, 15 * time.Second, 0.8},
		{8, 8, time.Millisecond, 0, many, 5 * time.Second, 15 * time.Second, 0.8},
		{8, 8, 500 * time.Microsecond, 0, many, 5 * time.Second, 10 * time.Second, 0.8},
		{8, 8, 20 * time.Millisecond, 0, many, 15 * time.Second, 20 * time.Second, 0.8},
	} {
		for _, counts := range ways(c.processes) {
			t.Run(fmt.Sprintf("%dx%d section=%v lag=%v counts=%v", c.processes, c.users, c.section, c.lag, counts), func(t *testing.T) {
				t.Parallel()
				had := 0
				for _, listeners := range append([]int{0}, c.listeners...) {
					f := newFight(c.processes, c.users, c.section, counts)
					f.listeners, f.settle, f.end = listeners, c.settle, c.end
					for _, p := range f.procs {
						p.lag += c.lag
					}
					f.run(t)
					has := sum(f.settled)
					t.Logf("%d listeners: %d sections %v", listeners, has, f.settled)
					assert.LessOrEqual(t, slices.Max(f.settled), 2*slices.Min(f.settled), "shares beside %d listeners", listeners)
					if listeners == 0 {
						had = has
					}
					assert.GreaterOrEqual(t, float64(has), c.used*float64(had), "%d listeners", listeners)
				}
			})
		}
	}
}

// TestStep_StoppedProcessIsMissed stops a process that contends. The others notice that it no longer tries, even if there is also a mere listener (a
// subscriber that never tries). When the process continues, the others notice that it tries again, and it gets its share.
func TestStep_StoppedProcessIsMissed(t *testing.T) {
	const stopped, goesOn, settle, end = time.Second, 4 * time.Second, 6500 * time.Millisecond, 10 * time.Second
	for _, c := range []struct {
		processes, users int
		section          time.Duration
	}{
		{2, 1, 0},
		{2, 1, time.Millisecond},
		{2, 16, time.Millisecond},
		{3, 8, time.Millisecond},
	} {
		for _, listeners := range []int{0, 1} {
			for _, counts := range ways(c.processes) {
				t.Run(fmt.Sprintf("%dx%d section=%v listeners=%d counts=%v", c.processes, c.users, c.section, listeners, counts), func(t *testing.T) {
					t.Parallel()
					f := newFight(c.processes, c.users, c.section, counts)
					f.listeners, f.settle, f.end = listeners, settle, end
					victim := f.procs[c.processes-1]
					f.At(stopped, func() { f.stopWaiting(victim, goesOn) })
					before := 0
					f.At(goesOn-time.Second, func() { before = sum(f.served) })
					meanwhile := 0
					f.At(goesOn, func() { meanwhile = sum(f.served) - before })
					f.run(t)
					t.Logf("%d sections in a second without it; then %v", meanwhile, f.settled)

					alone := newFight(c.processes-1, c.users, c.section, counts)
					alone.settle, alone.end = time.Second, 4*time.Second
					alone.run(t)
					assert.GreaterOrEqual(t, float64(meanwhile), 0.8*float64(sum(alone.settled))/3, "while it is stopped")
					assert.LessOrEqual(t, slices.Max(f.settled), 2*slices.Min(f.settled), "shares after that")
				})
			}
		}
	}
}

// stopWaiting stops a process as soon as it waits for the lock and is subscribed.
func (f *fight) stopWaiting(p *proc, until time.Duration) {
	if len(p.Subscribed) == 0 || p.state.(*State).phase != free {
		f.After(100*time.Microsecond, func() { f.stopWaiting(p, until) })
		return
	}
	p.PausedTo = until
}

// TestStep_LateComerGetsItsShare starts a process when others have already contended for the lock for some time. There are also mere listeners
// (subscribers that never try). The late process gets its share.
func TestStep_LateComerGetsItsShare(t *testing.T) {
	for _, c := range []struct {
		processes, users, listeners int
	}{
		{2, 1, 1}, {2, 16, 1}, {2, 16, 3}, {4, 4, 1}, {4, 4, 3},
	} {
		for _, counts := range ways(c.processes) {
			t.Run(fmt.Sprintf("%dx%d listeners=%d counts=%v", c.processes, c.users, c.listeners, counts), func(t *testing.T) {
				t.Parallel()
				f := newFight(c.processes, c.users, time.Millisecond, counts)
				f.listeners, f.settle = c.listeners, 6*time.Second
				f.procs[c.processes-1].PausedTo = 4 * time.Second
				f.run(t)
				t.Logf("served %v", f.settled)
				assert.LessOrEqual(t, slices.Max(f.settled), 2*slices.Min(f.settled))
			})
		}
	}
}

func sum(numbers []int) (sum int) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// ways returns the values of Policy.Standalone to test. Both are tested, because turns end in different ways with and without it. In short mode, a
// case with fewer than four processes is tested with one value, and a larger case is not tested.
func ways(processes int) (counts []bool) {
	switch {
	case !testing.Short():
		return []bool{false, true}
	case processes < 4:
		return []bool{true}
	}
	return nil
}
