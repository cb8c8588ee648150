package scripts

import (
	_ "embed"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed permits_set.lua
	permitsSetLua string
	//go:embed permits_add.lua
	permitsAddLua string
	//go:embed permits_read.lua
	permitsReadLua string
	//go:embed permits_release.lua
	permitsReleaseLua string
	//go:embed permits_delete.lua
	permitsDeleteLua string

	permitsSet     = load("permits_set", permitsSetLua)
	permitsAdd     = load("permits_add", permitsAddLua)
	permitsRead    = load("permits_read", permitsReadLua)
	permitsRelease = load("permits_release", permitsReleaseLua)
	permitsDelete  = load("permits_delete", permitsDeleteLua)
)

// PermitSemaphore has the operations on a semaphore whose permits are leases. Acquiring a permit is an operation of Permit instead.
var PermitSemaphore = &Kind{
	Name:     protocol.KindPermitSemaphore,
	Family:   PermitCounters,
	Channel:  func(raw, _ string) string { return SemaphoreChannel(raw) },
	Counting: &Counting{Check: checkPermits},
}

// The operations on a semaphore whose permits are leases.
var (
	PermitsTrySet    = trySet("set the permits of", SemaphoreChannel, func(n int64) any { return n })
	PermitsSet       = changePermits("set the permits of", permitsSet)
	PermitsAdd       = changePermits("add permits to", permitsAdd)
	PermitsFree      = readPermits("read the free permits of", "free")
	PermitsOut       = readPermits("read the acquired permits of", "out")
	PermitsAll       = readPermits("read the permits of", "all")
	PermitsDeleteAll = &CountOp{Word: "delete", Changes: true, Ends: true, Call: func(s *Site, raw string, t CountTerms) Call {
		return permitsCall(permitsDelete, s, raw, t)
	}}
)

// PermitsRelease releases permits by their ids.
func PermitsRelease(ids []string) *CountOp {
	return &CountOp{Word: "release permits of", Changes: true, Ends: true, Grants: ids, Call: func(s *Site, raw string, t CountTerms) Call {
		args := make([]any, len(ids))
		for i, id := range ids {
			args[i] = id
		}
		return permitsCall(permitsRelease, s, raw, t, args...)
	}}
}

func permitsCall(script *Script, s *Site, raw string, t CountTerms, args ...any) Call {
	keys := []any{raw, PermitsKey(raw), SemaphoreChannel(raw), AttemptKey(raw, t.Request)}
	return countCall(script, raw, keys, t, append([]any{s.Publish}, args...)...)
}

func changePermits(word string, script *Script) *CountOp {
	return &CountOp{Word: word, Changes: true, Call: func(s *Site, raw string, t CountTerms) Call {
		return permitsCall(script, s, raw, t, t.Numbers[0])
	}}
}

func readPermits(word, which string) *CountOp {
	return &CountOp{Word: word, Call: func(s *Site, raw string, t CountTerms) Call {
		c := newCall(permitsRead, 3, 3, -1)
		c.Command = append(c.Command, raw, PermitsKey(raw), SemaphoreChannel(raw), t.Request, s.Publish, which)
		return c
	}}
}

// permitGrace is the time for which Redis keeps a permit after its lease has ended: see lib/permits.lua.
const permitGrace = 10 * time.Second

// checkPermits also tries the operations of Permit.
func checkPermits(s *Site, raw string, newID func() string) []Call {
	first, second, third, expired := Permit.GrantID(newID()), Permit.GrantID(newID()), Permit.GrantID(newID()), Permit.GrantID(newID())
	terms := func(id string, lease time.Duration) Terms { return Terms{Grant: id, Lease: lease} }
	before := checkCounting(s, raw, newID, []countTry{
		{PermitsTrySet, CountTerms{Numbers: []int64{1}}}, {PermitsAdd, CountTerms{Numbers: []int64{1}}},
	})
	after := checkCounting(s, raw, newID, []countTry{
		{PermitsAll, CountTerms{}}, {PermitsRelease([]string{second}), CountTerms{}},
		{PermitsSet, CountTerms{Numbers: []int64{3}}}, {PermitsDeleteAll, CountTerms{}},
	})
	calls := append(before, acquirePermit(s, raw, terms(expired, -permitGrace)), // already expired, so the next call frees it
		acquirePermit(s, raw, terms(first, checkLease)), acquirePermit(s, raw, terms(second, checkLease)),
		acquirePermit(s, raw, terms(third, checkLease)), // none is free
		passPermit(s, raw, Terms{From: second, Grant: third, Lease: checkLease}), passPermit(s, raw, Terms{From: third, Grant: second, Lease: checkLease}),
		renewPermits(s, []string{raw}, []string{first}, checkLease), lookPermit(raw, first), releasePermit(s, raw, terms(first, 0)))
	return append(calls, after...)
}
