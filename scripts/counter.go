package scripts

import (
	_ "embed"
	"time"
)

var (
	//go:embed counter_try_set.lua
	counterTrySetLua string
	//go:embed counter_read.lua
	counterReadLua string
	//go:embed counter_delete.lua
	counterDeleteLua string
	//go:embed counter_forget.lua
	counterForgetLua string

	counterTrySet = load("counter_try_set", counterTrySetLua)
	counterRead   = load("counter_read", counterReadLua)
	counterDelete = load("counter_delete", counterDeleteLua)
	counterForget = load("counter_forget", counterForgetLua)
)

// Counting describes a kind that counts something instead of being held. Such a kind has no owners and no leases, so nothing is renewed and
// nothing expires.
type Counting struct {
	Give  *CountOp                                              // returns what a Take took if the caller of the Take is gone; nil if there is no Take
	Check func(s *Site, raw string, newID func() string) []Call // runs every script at least once, for Runtime.Check; leaves nothing behind
}

// Way is how an operation is carried out.
type Way uint8

// The ways.
const (
	Ask  Way = iota // an operation with one caller, and one answer
	Take            // an operation that takes something; its callers wait in order, and one call serves several callers
	Look            // an operation that reads the number; its callers wait until the number is zero, and one call serves all callers
	Give            // an operation that is carried out even if its callers leave; one call serves several callers
)

// CountOp is one operation of a kind that counts. Every call may be retried with the same request id.
type CountOp struct {
	Word    string // the operation in words, for error texts
	Way     Way
	Changes bool     // the operation changes something, and its result is kept for retries
	Undo    *CountOp // undoes this operation if its caller has left; nil if this operation is never undone
	Ends    bool     // the operation may end grants that are held; a result of 0 means that it has ended none
	Grants  []string // the grants that the operation ends, or nil if it ends all
	Call    func(s *Site, raw string, t CountTerms) Call
}

// Enters reports whether the operation takes something or waits. A runtime that is shutting down refuses such operations.
func (o *CountOp) Enters() bool { return o.Way == Look || o.Undo != nil }

// CountTerms are the parameters of a call of a CountOp.
type CountTerms struct {
	Request  string        // id; a retry has the same
	Numbers  []int64       // the operation's number, if it has one; a Take has a number for each waiter, negative for a waiter that only tries
	Keep     time.Duration // how long the result is kept
	Reserve  time.Duration // of a Take: if it can serve no waiter, it reserves the semaphore for this time; a negative time ends our reservation
	Rest     time.Duration // of a Take: time after our reservation in which no runtime may reserve the semaphore
	Answered []string      // requests whose results Redis need not keep any longer
}

// Counted is the reply of a CountOp.
type Counted struct {
	Number   int64  // the remaining number or another result, depending on the operation
	NotSet   bool   // of a Take: nothing is available because the number is not set; see Kind.NotSet
	Served   []bool // of a Take: which waiters were served
	Reserved bool   // of a Take: the call has made or prolonged a reservation for this runtime
}

// Forget is the operation that deletes the results of answered requests. An actor calls it before it stops, because no later call could delete these
// results.
var Forget = &CountOp{Word: "forget", Call: func(_ *Site, raw string, t CountTerms) Call {
	c := newCall(counterForget, len(t.Answered), 1, -1)
	return answered(c, raw, t, t.Request)
}}

// countCall builds the call of an operation that changes something. The keys of the results to be deleted follow the given keys.
func countCall(s *Script, raw string, keys []any, t CountTerms, args ...any) Call {
	c := newCall(s, len(keys)+len(t.Answered), 3+len(args), 1)
	c.Command = append(c.Command, keys...)
	return answered(c, raw, t, append([]any{t.Request, nil, t.Keep.Milliseconds()}, args...)...)
}

func answered(c Call, raw string, t CountTerms, args ...any) Call {
	for _, request := range t.Answered {
		c.Command = append(c.Command, AttemptKey(raw, request))
	}
	c.Command = append(c.Command, args...)
	return c
}

// trySet returns the operation that sets the number if there is none. If it has set the number, it publishes message(number).
func trySet(word string, channel func(string) string, message func(n int64) any) *CountOp {
	return &CountOp{Word: word, Changes: true, Call: func(s *Site, raw string, t CountTerms) Call {
		keys := []any{raw, channel(raw), AttemptKey(raw, t.Request)}
		return countCall(counterTrySet, raw, keys, t, s.Publish, t.Numbers[0], message(t.Numbers[0]))
	}}
}

// read returns the operation that reads the number.
func read(word string) *CountOp {
	return &CountOp{Word: word, Call: func(_ *Site, raw string, t CountTerms) Call {
		c := newCall(counterRead, 1, 1, -1)
		c.Command = append(c.Command, raw, t.Request)
		return c
	}}
}

// as sets o.Way, and returns o.
func (o *CountOp) as(way Way) *CountOp {
	o.Way = way
	return o
}

// remove returns the operation that deletes the key, and publishes a message unless the message is empty.
func remove(channel func(string) string, message string) *CountOp {
	return &CountOp{Word: "delete", Changes: true, Call: func(s *Site, raw string, t CountTerms) Call {
		keys := []any{raw, channel(raw), AttemptKey(raw, t.Request)}
		return countCall(counterDelete, raw, keys, t, s.Publish, message)
	}}
}

// countTry is one call of a check.
type countTry struct {
	op    *CountOp
	terms CountTerms
}

// checkCounting builds the calls of a check. The last call deletes the results that Redis keeps for retries of the other calls.
func checkCounting(s *Site, raw string, newID func() string, tries []countTry) (calls []Call) {
	last := CountTerms{Request: newID()}
	for _, try := range tries {
		try.terms.Keep = time.Second
		if try.terms.Request == "" {
			try.terms.Request = newID()
		}
		last.Answered = append(last.Answered, try.terms.Request)
		calls = append(calls, try.op.Call(s, raw, try.terms))
	}
	return append(calls, Forget.Call(s, raw, last))
}

// ReadCounted reads the reply of a CountOp with these terms.
func ReadCounted(reply any, op *CountOp, t *CountTerms) (Counted, error) {
	list, ok := reply.([]any)
	length, at := 2, 1
	if op.Way == Take {
		length, at = 4, 2
	}
	if !ok || len(list) != length || list[0] != t.Request {
		return Counted{}, unexpected(op.Word, reply)
	}
	number, ok := list[at].(int64)
	c := Counted{Number: number, NotSet: op.Way == Take && list[at] == ""}
	if !ok && !c.NotSet {
		return Counted{}, unexpected(op.Word, reply)
	}
	if op.Way != Take {
		return c, nil
	}
	served, ok := list[1].(string)
	if !ok || len(served) != len(t.Numbers) {
		return Counted{}, unexpected(op.Word, reply)
	}
	for i := range served {
		c.Served = append(c.Served, served[i] == '1')
	}
	c.Reserved = list[3] == int64(1)
	return c, nil
}
