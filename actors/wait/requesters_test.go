package wait

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actors/lease"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// Three actors and a goroutine acquire, release and lose read and write leases of a lock, in any order, and the actors terminate. An actor is watched
// exactly while it waits or holds a lease. When it terminates, exactly its own waits and leases end.
func TestRequesters_ListWhatActorsHave(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	u := &asking{T: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)), watched: map[string]bool{}}
	u.kinds = []*lease.Address{{Kind: scripts.ReadLock}, {Kind: scripts.WriteLock}}
	for range 20_000 {
		switch u.random.IntN(20) {
		default:
			u.acquire()
		case 6, 7, 8, 9, 10, 11, 12:
			u.answer()
		case 13, 14, 15:
			u.release()
		case 16, 17:
			u.lose()
		case 18:
			u.terminate()
		}
		u.check()
	}
}

// asking calls a Requesters list as the lock's shell would, for random actors. It records which actors, waits and leases the list should contain.
type asking struct {
	*testing.T
	seed    uint64
	random  *rand.Rand
	kinds   []*lease.Address
	list    Requesters
	watched map[string]bool
	waits   []*Request // those of actors
	holds   []*lease.Hold
	serials uint64
}

func (u *asking) pid() lease.Ref { return actor.NewPID("here", fmt.Sprint(u.random.IntN(3))) }

func has(pid lease.Ref, of lease.Ref) bool { return of != nil && of.GetId() == pid.GetId() }

func (u *asking) acquire() {
	r := &Request{Do: Acquire, Address: u.kinds[u.random.IntN(2)], Requester: u.pid(), ID: u.random.Uint64N(4), Hold: &lease.Hold{}}
	used := slices.ContainsFunc(u.waits, func(other *Request) bool { return has(r.Requester, other.Requester) && other.ID == r.ID })
	first, err := u.list.Admit(r)
	require.Equal(u, used, err != nil, "seed %d: %v", u.seed, err)
	if used {
		require.ErrorIs(u, err, protocol.ErrInvalid)
		require.Nil(u, u.list.Answered(r), "seed %d: the refusal ends no other wait", u.seed)
		return
	}
	require.Equal(u, !u.watched[r.Requester.GetId()], first, "seed %d", u.seed)
	u.watched[r.Requester.GetId()] = true
	u.waits = append(u.waits, r)
}

func (u *asking) unwatch(done lease.Ref) {
	if done != nil {
		require.True(u, u.watched[done.GetId()], "seed %d", u.seed)
		delete(u.watched, done.GetId())
	}
}

// answer grants or refuses an acquire that an actor has asked for, or grants a lease to a goroutine.
func (u *asking) answer() {
	u.serials++
	hold := lease.Hold{Grant: &lease.Grant{Address: u.kinds[0]}, Serial: u.serials}
	i := u.random.IntN(len(u.waits) + 1)
	if i == len(u.waits) {
		require.Nil(u, u.list.Hold(&Request{Address: u.kinds[0], Serial: u.serials}), "no actor may name it")
		require.Nil(u, u.list.Ended(&hold))
		return
	}
	r := u.waits[i]
	u.waits = slices.Delete(u.waits, i, i+1)
	if r.Err = errors.New("refused"); u.random.IntN(2) == 0 {
		r.Err = nil
		r.Hold.Grant, r.Hold.Serial = &lease.Grant{Address: r.Address}, u.serials
		u.holds = append(u.holds, r.Hold)
	}
	u.unwatch(u.list.Answered(r))
	if r.Err == nil {
		require.Equal(u, r.Requester, r.Hold.Requester)
		require.True(u, r.Hold.Grant.Tended.Load())
	}
}

// release lets a random actor release a random lease. The request has a random kind of lock. If that is not the lease's kind, the list must not find
// the lease.
func (u *asking) release() {
	if len(u.holds) == 0 {
		return
	}
	i := u.random.IntN(len(u.holds))
	h := u.holds[i]
	r := &Request{Do: Release, Address: u.kinds[u.random.IntN(2)], Requester: u.pid(), Serial: h.Serial}
	r.Hold = u.list.Hold(r)
	if r.Address != h.Address() {
		require.Nil(u, r.Hold, "seed %d: a lease of another kind", u.seed)
	} else {
		require.Same(u, h, r.Hold, "seed %d", u.seed)
		u.holds = slices.Delete(u.holds, i, i+1)
	}
	u.unwatch(u.list.Answered(r))
}

func (u *asking) lose() {
	if len(u.holds) > 0 {
		i := u.random.IntN(len(u.holds))
		h := u.holds[i]
		u.holds = slices.Delete(u.holds, i, i+1)
		u.unwatch(u.list.Ended(h))
		require.Nil(u, u.list.Ended(h), "seed %d: it ends once", u.seed)
	}
}

func (u *asking) terminate() {
	pid := u.pid()
	waits, holds := u.list.Gone(pid)
	delete(u.watched, pid.GetId())
	for i := range u.waits {
		r := u.waits[len(u.waits)-1-i]
		if has(pid, r.Requester) {
			require.Contains(u, waits, r, "seed %d", u.seed)
			require.Nil(u, u.list.Answered(r), "seed %d: a late answer changes nothing", u.seed)
		}
	}
	u.waits = slices.DeleteFunc(u.waits, func(r *Request) bool { return has(pid, r.Requester) })
	u.holds = slices.DeleteFunc(u.holds, func(h *lease.Hold) bool {
		if !has(pid, h.Requester) {
			return false
		}
		require.Same(u, holds[0], h, "seed %d: oldest first", u.seed)
		holds = holds[1:]
		return true
	})
	require.Empty(u, holds, "seed %d", u.seed)
}

// check compares the list with what each actor should have.
func (u *asking) check() {
	want := map[string]bool{}
	for _, r := range u.waits {
		want[r.Requester.GetId()] = true
		require.Same(u, r, u.list.Waiting(r.Requester, r.ID), "seed %d", u.seed)
	}
	for _, h := range u.holds {
		want[h.Requester.GetId()] = true
		require.Same(u, h, u.list.Hold(&Request{Address: h.Address(), Serial: h.Serial}), "seed %d", u.seed)
	}
	require.Equal(u, want, u.watched, "seed %d", u.seed)
	got := map[string]bool{}
	for _, pid := range u.list.All() {
		got[pid.GetId()] = true
	}
	require.Equal(u, want, got, "seed %d", u.seed)
}

// When an actor terminates, its waits end, the newest first. Of the waits that began at the same instant, the one with the highest ID ends first.
func TestRequesters_EndTheNewestWaitFirst(t *testing.T) {
	t.Parallel()
	var list Requesters
	pid := actor.NewPID("here", "p")
	for i, came := range []int{3, 1, 2, 2} {
		_, err := list.Admit(&Request{Do: Acquire, Requester: pid, ID: uint64(i), Came: time.Duration(came)})
		require.NoError(t, err)
	}
	waits, _ := list.Gone(pid)
	var ids []uint64
	for _, r := range waits {
		ids = append(ids, r.ID)
	}
	require.Equal(t, []uint64{0, 3, 2, 1}, ids)
}
