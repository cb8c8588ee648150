package scripts

import (
	_ "embed"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed semaphore_acquire.lua
	semaphoreAcquireLua string
	//go:embed semaphore_add.lua
	semaphoreAddLua string
	//go:embed semaphore_drain.lua
	semaphoreDrainLua string
	//go:embed semaphore_undo.lua
	semaphoreUndoLua string

	semaphoreAcquire = load("semaphore_acquire", semaphoreAcquireLua)
	semaphoreAdd     = load("semaphore_add", semaphoreAddLua)
	semaphoreDrain   = load("semaphore_drain", semaphoreDrainLua)
	semaphoreUndo    = load("semaphore_undo", semaphoreUndoLua)
)

// Semaphore counts permits.
var Semaphore = &Kind{
	Name:     protocol.KindSemaphore,
	Family:   Counters,
	NotSet:   "it has no permits: TrySetPermits was never called, or it was deleted since",
	Channel:  func(raw, _ string) string { return SemaphoreChannel(raw) },
	Counting: &Counting{Give: SemaphoreRelease, Check: checkSemaphore},
}

// The operations on a semaphore.
var (
	SemaphoreAcquire = &CountOp{Word: "acquire", Way: Take, Changes: true, Undo: undoPermits, Call: acquirePermits}
	SemaphoreRelease = &CountOp{Word: "release", Way: Give, Changes: true, Call: addPermits}
	SemaphoreAdd     = &CountOp{Word: "add permits to", Changes: true, Call: addPermits}
	SemaphoreDrain   = &CountOp{Word: "drain", Changes: true, Undo: undoPermits, Call: drainPermits}
	SemaphoreTrySet  = trySet("set the permits of", SemaphoreChannel, func(n int64) any { return n })
	SemaphoreRead    = read("read the permits of")
	SemaphoreDelete  = remove(SemaphoreChannel, "") // no message, as in Redisson: nothing has become free

	undoPermits = &CountOp{Word: "undo", Way: Give, Call: undoTaken}
)

func acquirePermits(s *Site, raw string, t CountTerms) Call {
	keys := []any{raw, SemaphoreChannel(raw), AttemptKey(raw, t.Request), WantKey(raw)}
	args := append(make([]any, 0, 4+len(t.Numbers)), s.Publish, s.Runtime, reserve(t.Reserve), t.Rest.Milliseconds())
	for _, n := range t.Numbers {
		args = append(args, n)
	}
	return countCall(semaphoreAcquire, raw, keys, t, args...)
}

func reserve(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

func addPermits(s *Site, raw string, t CountTerms) Call {
	keys := []any{raw, SemaphoreChannel(raw), AttemptKey(raw, t.Request)}
	return countCall(semaphoreAdd, raw, keys, t, s.Publish, t.Numbers[0])
}

func drainPermits(_ *Site, raw string, t CountTerms) Call {
	return countCall(semaphoreDrain, raw, []any{raw, AttemptKey(raw, t.Request)}, t)
}

func undoTaken(s *Site, raw string, t CountTerms) Call {
	c := newCall(semaphoreUndo, 3, 3, -1)
	c.Command = append(c.Command, raw, SemaphoreChannel(raw), AttemptKey(raw, t.Request), t.Request, t.Keep.Milliseconds(), s.Publish)
	return c
}

func checkSemaphore(s *Site, raw string, newID func() string) []Call {
	taken := newID()
	return checkCounting(s, raw, newID, []countTry{
		{SemaphoreTrySet, CountTerms{Numbers: []int64{1}}},
		{SemaphoreAcquire, CountTerms{Request: taken, Numbers: []int64{1, 2}}},
		{SemaphoreAcquire, CountTerms{Numbers: []int64{2}, Reserve: time.Second}},
		{SemaphoreAcquire, CountTerms{Reserve: -1, Rest: time.Second}},
		{SemaphoreAcquire, CountTerms{Reserve: -1}},
		{undoPermits, CountTerms{Request: taken}},
		{SemaphoreDrain, CountTerms{}},
		{SemaphoreRelease, CountTerms{Numbers: []int64{1}}},
		{SemaphoreRead, CountTerms{}},
		{SemaphoreDelete, CountTerms{}},
	})
}
