package scripts

import (
	_ "embed"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed latch_count_down.lua
	latchCountDownLua string

	latchCountDown = load("latch_count_down", latchCountDownLua)
)

// CountDownLatch is a latch that counts down. Its waiters wait until it is at zero.
var CountDownLatch = &Kind{
	Name:     protocol.KindLatch,
	Family:   Latches,
	Channel:  func(raw, _ string) string { return LatchChannel(raw) },
	Counting: &Counting{Check: checkLatch},
}

// newCount is the message that Redisson publishes when a latch is set or deleted.
const newCount = "1"

// The operations on a latch.
var (
	LatchWait      = read("wait for").as(Look)
	LatchCountDown = &CountOp{Word: "count down", Way: Give, Changes: true, Call: countDown}
	LatchTrySet    = trySet("set the count of", LatchChannel, func(int64) any { return newCount })
	LatchRead      = read("read the count of")
	LatchDelete    = remove(LatchChannel, newCount)
)

func countDown(s *Site, raw string, t CountTerms) Call {
	keys := []any{raw, LatchChannel(raw), AttemptKey(raw, t.Request)}
	return countCall(latchCountDown, raw, keys, t, s.Publish, t.Numbers[0])
}

func checkLatch(s *Site, raw string, newID func() string) []Call {
	return checkCounting(s, raw, newID, []countTry{
		{LatchTrySet, CountTerms{Numbers: []int64{2}}},
		{LatchCountDown, CountTerms{Numbers: []int64{1}}},
		{LatchRead, CountTerms{}},
		{LatchDelete, CountTerms{}},
		{LatchTrySet, CountTerms{Numbers: []int64{1}}},
		{LatchCountDown, CountTerms{Numbers: []int64{1}}},
	})
}
