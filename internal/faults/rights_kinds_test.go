package faults_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A user with only the rights that SECURITY.md documents for a kind can do everything with that kind. If any one of these rights is missing, CheckFor
// names that right and no other.
func TestFault_RightsOfEachKind(t *testing.T) {
	t.Parallel()
	rights := documentedRights(t)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(lives)), slices.Collect(maps.Keys(rights)), "kinds")
	for kind, live := range lives {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			u := &user{server: redistest.Start(t), rights: rights[kind]}
			u.redis = u.server.Client(t)
			one, other := u.runtime(t, "one"), u.runtime(t, "other")
			live(t, &locktest.Place{Addr: u.server.Addr(), Name: redistest.Name(t), Redis: u.redis}, one, other)
			for _, kind := range kindsOf(kind) {
				require.NoError(t, one.CheckFor(t.Context(), kind), "%s", kind)
			}
			u.everyRightIsMissed(t, func(rt *holdfast.Runtime) error { return rt.CheckFor(t.Context(), kindsOf(kind)...) })
		})
	}
}

// documentedRights returns the rules of SECURITY.md by kind.
func documentedRights(t *testing.T) map[string][]string {
	text, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Rights of each kind\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section = strings.ReplaceAll(section, `\|`, "|") // a table escapes the |
	common := regexp.MustCompile("`(\\+hello [^`]*)`").FindStringSubmatch(section)
	require.NotNil(t, common)
	rights := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \| (.*) \| (.*) \|$`).FindAllStringSubmatch(section, -1) {
		all := strings.Fields(common[1])
		if row[1] == "spin lock" { // its waiters subscribe to nothing
			all = slices.DeleteFunc(all, func(rule string) bool { return strings.HasSuffix(rule, "subscribe") })
		}
		for column, cell := range row[2:] {
			if strings.Contains(cell, "those of a lock and") {
				all = append(all, regexp.MustCompile(`\S+`).FindAllString(lockRights(section)[column], -1)...)
			}
			for _, rules := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cell, -1) {
				all = append(all, strings.Fields(rules[1])...)
			}
		}
		rights[row[1]] = all
	}
	delete(rights, "kind")
	delete(rights, "---")
	return rights
}

// lockRights returns two cells from the row of the table that is about locks: the patterns and the commands. Other rows refer to these cells.
func lockRights(section string) []string {
	return regexp.MustCompile("(?m)^\\| lock \\| `([^`]*)` \\| `([^`]*)` \\|$").FindStringSubmatch(section)[1:]
}

// user is a Redis user with the rights for one kind.
type user struct {
	server *redistest.Server
	redis  *redis.Client // of a user who may do everything
	rights []string
}

// runtime returns a runtime of a user with the rights.
func (u *user) runtime(t *testing.T, name string) *holdfast.Runtime {
	return locktest.NewRuntime(t, u.client(t, name, ""), holdfast.Options{Lease: 4 * time.Second, NameMapper: appKey})
}

// client returns a client of a user who has the rights, except the missing one.
func (u *user) client(t *testing.T, name, missing string) redis.UniversalClient {
	u.permit(t, name, missing)
	return locktest.ClientWith(t, &redis.Options{Addr: u.server.Addr(), Username: name, Password: "right"})
}

func appKey(name string) string { return "app:" + name }

// permit gives a user the rights, except the missing one.
func (u *user) permit(t *testing.T, name, missing string) {
	rules := []string{"reset", "on", ">right", "resetkeys", "resetchannels", "-@all"}
	for _, right := range u.rights {
		if right != missing {
			rules = append(rules, right)
		}
	}
	require.NoError(t, u.redis.ACLSetUser(context.Background(), name, rules...).Err(), "%q", rules)
}

// everyRightIsMissed calls `check` for users who each lack one of the rights, and asserts that `check` reports exactly that right. With -short or the
// race detector it tests only some of the rights.
func (u *user) everyRightIsMissed(t *testing.T, check func(rt *holdfast.Runtime) error) {
	rights := slices.Compact(slices.Sorted(slices.Values(u.rights)))
	rand.Shuffle(len(rights), func(i, j int) { rights[i], rights[j] = rights[j], rights[i] })
	for _, right := range rights[:locktest.Scaled(len(rights), 2)] {
		if right == "+hello" {
			continue // go-redis works without it
		}
		require.NoError(t, u.redis.ScriptFlush(t.Context()).Err())
		rt := locktest.NewRuntime(t, u.client(t, "missing", right), holdfast.Options{NameMapper: appKey, Logger: locktest.Quiet()})
		var found *holdfast.CheckError
		if assert.ErrorAs(t, check(rt), &found, "without %s", right) && assert.Len(t, found.Findings, 1, "without %s: %v", right, found) {
			assert.Equal(t, "ACL SETUSER missing "+right, found.Findings[0].Remedy)
			assert.Regexp(t, "NOPERM|The user executing the script", found.Findings[0].Why)
		}
	}
	for _, key := range u.redis.Keys(t.Context(), "*holdfast-check-*").Val() {
		assert.NotEqual(t, time.Duration(-1), u.redis.PTTL(t.Context(), key).Val(), "%s has no end", key)
	}
}

// kindsOf returns the kinds that a row of the table is about.
func kindsOf(row string) []holdfast.Kind {
	if row == "read/write lock" {
		return []holdfast.Kind{holdfast.KindRead, holdfast.KindWrite}
	}
	return []holdfast.Kind{holdfast.Kind(row)}
}

// lives has, for each kind, a function that does everything that can be done with locks of that kind.
var lives = map[string]func(t *testing.T, p *locktest.Place, one, other *holdfast.Runtime){
	"lock":        ofLock((*holdfast.Runtime).Lock),
	"spin lock":   ofLock((*holdfast.Runtime).SpinLock),
	"fenced lock": ofLock((*holdfast.Runtime).FencedLock),
	"fair lock":   ofLock((*holdfast.Runtime).FairLock),
	"read/write lock": func(t *testing.T, p *locktest.Place, one, other *holdfast.Runtime) {
		ofLock(func(rt *holdfast.Runtime, name string) *holdfast.Lock { return rt.RWLock(name).Write() })(t, p, one, other)
		read := locktest.Acquire(t, one.RWLock(p.Name).Read())
		again := locktest.Acquire(t, other.RWLock(p.Name).Read(), holdfast.WithLease(time.Minute))
		writing := other.RWLock(p.Name).Write().AcquireAsync(t.Context())
		awaitRenewal(t, read)
		locktest.Release(t, read)
		locktest.Release(t, again)
		locktest.Release(t, leaseOf(t, writing))
		locktest.Acquire(t, one.RWLock(p.Name).Read())
		freed, err := other.RWLock(p.Name).Read().ForceRelease(t.Context())
		require.NoError(t, err)
		assert.True(t, freed)
	},
	"semaphore":        lifeOfSemaphore,
	"permit semaphore": lifeOfPermits,
	"latch":            lifeOfLatch,
}

func leaseOf(t *testing.T, pending *holdfast.Pending) *holdfast.Lease {
	t.Helper()
	locktest.Closed(t, "the grant", pending.Done())
	lease, err := pending.Lease()
	require.NoError(t, err)
	return lease
}

func ofLock(lock func(*holdfast.Runtime, string) *holdfast.Lock) func(*testing.T, *locktest.Place, *holdfast.Runtime, *holdfast.Runtime) {
	return func(t *testing.T, p *locktest.Place, one, other *holdfast.Runtime) {
		held := locktest.Acquire(t, lock(one, p.Name))
		waiting := lock(other, p.Name).AcquireAsync(t.Context())
		cancelled := lock(other, p.Name).AcquireAsync(t.Context(), holdfast.WithLease(time.Minute))
		locktest.Await(t, "waiters", func() bool {
			state, err := lock(other, p.Name).Inspect(t.Context())
			return assert.NoError(t, err) && state.Waiting == 2 && state.Held
		})
		cancelled.Cancel()
		_, err := cancelled.Lease()
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		awaitRenewal(t, held)
		near := lock(one, p.Name).AcquireAsync(t.Context()) // of the same process
		locktest.Release(t, held)
		for served := 0; served < 2; served++ { // in either order
			select {
			case <-waiting.Done():
				locktest.Release(t, leaseOf(t, waiting))
				waiting = near
			case <-near.Done():
				locktest.Release(t, leaseOf(t, near))
				near = waiting
			case <-time.After(locktest.Patience):
				require.Fail(t, "nobody is served")
			}
		}
		fixed := locktest.Acquire(t, lock(one, p.Name), holdfast.WithLease(time.Minute))
		require.NoError(t, fixed.Extend(t.Context(), time.Hour))
		freed, err := lock(other, p.Name).ForceRelease(t.Context())
		require.NoError(t, err)
		assert.True(t, freed)
		require.ErrorIs(t, fixed.Release(t.Context()), holdfast.ErrLeaseLost)
	}
}

// within returns the next value from a channel, which must arrive in time.
func within[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(locktest.Patience):
		require.Fail(t, "nothing comes")
	}
	return value
}

func lifeOfSemaphore(t *testing.T, p *locktest.Place, one, other *holdfast.Runtime) {
	ctx, s := t.Context(), one.Semaphore(p.Name)
	set, err := s.TrySetPermits(ctx, 2)
	require.NoError(t, err)
	assert.True(t, set)
	require.NoError(t, s.Acquire(ctx, 2))
	require.ErrorIs(t, s.TryAcquire(ctx, 1), holdfast.ErrNotAcquired)
	served := make(chan error, 1)
	go func() { served <- other.Semaphore(p.Name).Acquire(ctx, 2) }() // reserves its permits after a while
	locktest.Await(t, "the reservation", func() bool { return len(p.KeysLike(t, "holdfast_want:*")) > 0 })
	require.NoError(t, s.Release(ctx, 2))
	require.NoError(t, within(t, served))
	require.NoError(t, s.AddPermits(ctx, 5))
	n, err := s.Available(ctx)
	require.NoError(t, err)
	assert.Equal(t, 5, n)
	n, err = s.Drain(ctx)
	require.NoError(t, err)
	assert.Equal(t, 5, n)
	deleted, err := s.Delete(ctx)
	require.NoError(t, err)
	assert.True(t, deleted)
}

func lifeOfPermits(t *testing.T, p *locktest.Place, one, other *holdfast.Runtime) {
	ctx, s := t.Context(), one.PermitSemaphore(p.Name)
	_, err := s.TrySetPermits(ctx, 1)
	require.NoError(t, err)
	held, waiting := locktest.AcquirePermit(t, s), make(chan *holdfast.Lease, 1)
	go func() { lease, _ := other.PermitSemaphore(p.Name).Acquire(ctx); waiting <- lease }()
	awaitRenewal(t, held)
	locktest.Release(t, held)
	lease := within(t, waiting)
	require.NotNil(t, lease)
	for _, count := range []func(context.Context) (int, error){s.Available, s.Acquired, s.Permits} {
		_, err := count(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, s.ReleaseID(ctx, lease.ID()))
	fixed := locktest.AcquirePermit(t, s, holdfast.WithLease(time.Minute))
	require.NoError(t, fixed.Extend(ctx, time.Hour))
	locktest.Release(t, fixed)
	require.NoError(t, s.AddPermits(ctx, 1))
	require.NoError(t, s.SetPermits(ctx, 3))
	require.NoError(t, p.Redis.Expire(ctx, "app:"+p.Name, time.Hour).Err())
	locktest.Release(t, locktest.AcquirePermit(t, s))
	deleted, err := s.Delete(ctx)
	require.NoError(t, err)
	assert.True(t, deleted)
}

func lifeOfLatch(t *testing.T, p *locktest.Place, one, other *holdfast.Runtime) {
	ctx, l := t.Context(), one.CountDownLatch(p.Name)
	set, err := l.TrySetCount(ctx, 2)
	require.NoError(t, err)
	assert.True(t, set)
	zero := make(chan error, 1)
	go func() { zero <- other.CountDownLatch(p.Name).Wait(ctx) }()
	require.NoError(t, l.CountDown(ctx))
	n, err := l.Count(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	require.NoError(t, l.CountDown(ctx))
	require.NoError(t, within(t, zero))
	_, err = l.TrySetCount(ctx, 2)
	require.NoError(t, err)
	deleted, err := l.Delete(ctx)
	require.NoError(t, err)
	assert.True(t, deleted)
}

// A user with only the rights that SECURITY.md documents for an election can run one, and watch who leads. If the right to listen is missing, an
// event says so, and Watch still notices the leader. Election.Check names each missing right.
func TestFault_RightsOfAnElection(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	documented := regexp.MustCompile("An election needs the rights of a fenced lock and, in addition, `([^`]*)`").FindSubmatch(text)
	require.NotNil(t, documented)
	u := &user{server: redistest.Start(t), rights: append(documentedRights(t)["fenced lock"], strings.Fields(string(documented[1]))...)}
	u.redis = u.server.Client(t)
	one, other := u.runtime(t, "one"), u.runtime(t, "other")
	var events locktest.Recorder
	deaf := locktest.NewRuntime(t, u.client(t, "deaf", "&holdfast_leader:{app:*"), holdfast.Options{NameMapper: appKey, OnEvent: events.Record})
	led := make(chan holdfast.Leader)
	for _, rt := range []*holdfast.Runtime{other, deaf} {
		go func() {
			for l := range rt.Election("chair", holdfast.ElectionOptions{Lease: time.Second}).Watch(t.Context()) {
				led <- l
			}
		}()
	}
	locktest.Await(t, "the event", func() bool { return len(locktest.Recorded[holdfast.SubscribeRefused](&events)) > 0 })
	assert.Equal(t, "chair", locktest.Recorded[holdfast.SubscribeRefused](&events)[0].Lock())
	locktest.Await(t, "the watcher", func() bool { return len(u.redis.PubSubChannels(t.Context(), "holdfast_leader:{app:chair}").Val()) == 1 })
	err = one.Election("chair", holdfast.ElectionOptions{}).Run(t.Context(), func(_ context.Context, term holdfast.Term) error {
		assert.Equal(t, term.Token, within(t, led).Token)
		assert.Equal(t, term.Token, within(t, led).Token)
		return holdfast.ErrResign
	})
	assert.NoError(t, err)

	check := func(rt *holdfast.Runtime) error {
		return rt.Election("chair", holdfast.ElectionOptions{}).Check(t.Context())
	}
	require.NoError(t, check(one))
	require.NoError(t, one.CheckFor(t.Context(), holdfast.KindFenced))
	u.everyRightIsMissed(t, check)
}

// The rights that SECURITY.md documents for lingering locks are sufficient. A demand is the message with which a waiter ends the lingering of a lock.
// If the right to the channels for demands is missing, CheckFor names it. A waiter without this right still gets the lock within Options.Linger.
func TestFault_RightsToLinger(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	documented := regexp.MustCompile("`Options.Linger` needs, in addition, `([^`]*)`").FindSubmatch(text)
	require.NotNil(t, documented)
	u := &user{server: redistest.Start(t), rights: append(documentedRights(t)["lock"], strings.Fields(string(documented[1]))...)}
	u.redis = u.server.Client(t)
	const channels = "&holdfast_demand:*"
	options := holdfast.Options{Lease: 40 * time.Second, Linger: 10 * time.Second, NameMapper: appKey, Logger: locktest.Quiet()}

	var found *holdfast.CheckError
	denied := locktest.NewRuntime(t, u.client(t, "denied", channels), options)
	require.ErrorAs(t, denied.CheckFor(t.Context(), holdfast.KindLock), &found)
	require.Len(t, found.Findings, 1)
	assert.Equal(t, "ACL SETUSER denied "+channels, found.Findings[0].Remedy)
	require.NoError(t, denied.Close(t.Context()))

	one, other := locktest.NewRuntime(t, u.client(t, "one", ""), options), u.runtime(t, "other")
	require.NoError(t, one.CheckFor(t.Context(), holdfast.KindLock))
	locktest.Release(t, locktest.Acquire(t, one.Lock("orders")))
	began := time.Now()
	locktest.Release(t, locktest.Acquire(t, other.Lock("orders")))
	assert.Less(t, time.Since(began), options.Linger/2)

	late := locktest.NewRuntime(t, u.client(t, "late", channels), options)
	locktest.Release(t, locktest.Acquire(t, late.Lock("late")))
	_, err = other.Lock("late").TryAcquire(t.Context())
	require.ErrorIs(t, err, holdfast.ErrNotAcquired)
	require.NoError(t, u.redis.Do(t.Context(), "ACL", "SETUSER", "late", channels).Err())
	began = time.Now()
	locktest.Await(t, "the lock that was wanted before the first subscription", func() bool { return late.Stats().Lingering == 0 })
	assert.Less(t, time.Since(began), options.Linger/2)

	silent := locktest.NewRuntime(t, u.client(t, "silent", channels), holdfast.Options{NameMapper: appKey})
	short := options
	short.Linger = time.Second
	two := locktest.NewRuntime(t, u.client(t, "two", ""), short)
	locktest.Release(t, locktest.Acquire(t, two.Lock("orders")))
	locktest.Release(t, locktest.Acquire(t, silent.Lock("orders")))
	assert.Zero(t, two.Stats().Lingering)
}
